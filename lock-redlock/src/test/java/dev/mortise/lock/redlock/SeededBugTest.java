package dev.mortise.lock.redlock;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.redlock.Node.Answer;
import dev.mortise.lock.redlock.Node.Proposal;
import dev.mortise.lock.redlock.Node.Vote;
import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.Test;

/**
 * The kit finds a mistake that was put into this protocol, with its normal number of tries. How often, over ten seeds: {@code
 * -Dmortise.seeds=10}, which prints it.
 */
class SeededBugTest {
    /** A server that has accepted an attempt's earlier token is taken to have accepted the next one, too. */
    @Test
    void aGrantThatCountsDifferentTokens() throws Exception {
        assertFound(() -> new FiveServers(SeededBugTest::countingTogether), "1.1", "5.1", "5.2", "5.3");
    }

    private static Node countingTogether(Node right) {
        Set<String> accepted = ConcurrentHashMap.newKeySet();
        return (Node) Proxy.newProxyInstance(
                Node.class.getClassLoader(), new Class<?>[] {Node.class}, (self, method, args) -> {
                    if (args != null && args[0] instanceof Proposal proposal) {
                        if (accepted.contains(proposal.owner())) {
                            return CompletableFuture.completedFuture(Vote.of(Answer.OK, proposal.token()));
                        }
                        return right.propose(proposal).thenApply(vote -> {
                            if (vote.answer() == Answer.OK) {
                                accepted.add(proposal.owner());
                            }
                            return vote;
                        });
                    }
                    try {
                        return method.invoke(right, args);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
    }

    private static void assertFound(Mistaken store, String... rules) throws Exception {
        String before = System.getProperty("mortise.tck.seed");
        int seeds = Integer.getInteger("mortise.seeds", 1);
        int found = 0;
        try {
            for (int seed = 1; seed <= seeds; seed++) {
                System.setProperty("mortise.tck.seed", String.valueOf(seed));
                Map<String, String> broken = LockTck.broken(store.open(), rules);
                System.out.println("seed " + seed + ": broken " + broken.keySet());
                found += broken.isEmpty() ? 0 : 1;
            }
        } finally {
            if (before == null) {
                System.clearProperty("mortise.tck.seed");
            } else {
                System.setProperty("mortise.tck.seed", before);
            }
        }
        System.out.println("found with " + found + " of " + seeds + " seeds");
        assertThat(found).isEqualTo(seeds);
    }

    private interface Mistaken {
        Store open() throws Exception;
    }
}
