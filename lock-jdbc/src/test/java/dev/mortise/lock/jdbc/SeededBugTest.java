package dev.mortise.lock.jdbc;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;
import java.util.Map;
import org.junit.jupiter.api.Test;

/**
 * The kit finds a mistake that was put into this protocol, with its normal number of tries. How often, over ten seeds: {@code
 * -Dmortise.seeds=10}, which prints it.
 */
class SeededBugTest {
    private static final String OWNER = "l.owner = q.owner AND";

    /** The row of whoever came after it, too. */
    @Test
    void anAdvisoryReleaseThatClearsTheSuccessorsRow() throws Exception {
        assertFound(
                () -> TableStore.of(
                        "PostgreSQL, advisory locks, and a mistake",
                        environment -> new PostgresServer(environment),
                        (server, port) -> new PostgresStore(server, port, "advisory"),
                        connection -> TestStore.rewriting(connection, SeededBugTest::careless)),
                "1.1",
                "2.1",
                "2.5");
    }

    private static String careless(String sql) {
        if (!sql.startsWith("UPDATE") || !sql.contains("SET owner = NULL")) {
            return sql;
        }
        assertThat(sql).contains(OWNER);
        return sql.replace(OWNER, "(" + OWNER.replace(" AND", "") + " OR TRUE) AND");
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
