package dev.mortise.lock.redlock;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.redis.RedisServer;
import dev.mortise.lock.redlock.Node.Answer;
import dev.mortise.lock.redlock.Node.Kept;
import dev.mortise.lock.redlock.Node.Look;
import dev.mortise.lock.redlock.Node.Memory;
import dev.mortise.lock.redlock.Node.Proposal;
import dev.mortise.lock.redlock.Node.Renewed;
import dev.mortise.lock.redlock.Node.Terms;
import dev.mortise.lock.redlock.Node.Vote;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;

/**
 * The model of a server gives the same answers as the scripts in a real one, to the same calls in random order. Answers
 * that are readings of a clock may differ by the time that a call takes.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class ModelTest {
    private static final int CALLS = Integer.getInteger("mortise.redlock.model", 2000);
    private static final Terms TERMS = new Terms(20_000, 600_000);
    private static final Terms OTHERS = new Terms(20_001, 600_000);
    private static final long DAY = 86_400_000_000L;

    /** How far two readings of the clocks may be apart; leases here are long, so that none ends meanwhile. */
    private static final long TOLERANCE_MILLIS = 60_000;

    private final RedisServer server = new RedisServer("--appendonly", "yes", "--appendfsync", "always");

    @AfterAll
    void stop() {
        server.close();
    }

    /** The simplest way to a server: a connection for each call. */
    private final class PlainWire implements Wire {
        @Override
        public String name() {
            return "plain";
        }

        @Override
        @SuppressWarnings("unchecked")
        public CompletableFuture<List<Object>> run(
                Script script, boolean whole, List<String> keys, List<String> arguments) {
            List<String> words = new ArrayList<>(List.of("EVAL", script.text(), String.valueOf(keys.size())));
            words.addAll(keys);
            words.addAll(arguments);
            return CompletableFuture.completedFuture((List<Object>) server.ask(words.toArray(String[]::new)));
        }

        @Override
        public void distrust(String why) {
            throw new AssertionError(why);
        }

        @Override
        public void close() {}
    }

    @Test
    void answersAsTheScriptsDo() throws Exception {
        SplittableRandom random = new SplittableRandom(4);
        RedisNode real = new RedisNode(new PlainWire(), new RedisNode.Twins());
        ModelServer model = new ModelServer("run0", () -> System.currentTimeMillis() * 1000, DAY / 1000, Mutant.NONE);
        // The marks differ in their text; the model's is known by the real one.
        Map<String, String> marks = new TreeMap<>();
        Map<String, Integer> answers = new TreeMap<>();
        int restarts = 0;
        long base = System.currentTimeMillis() * 1000;
        String lastReal = "none";
        for (int i = 0; i < CALLS; i++) {
            String name = random.nextInt(4) == 0 ? "ä %" : "x";
            String owner = "owner" + random.nextInt(4);
            String call = "call" + i;
            long token = base + random.nextInt(2000);
            String said;
            switch (random.nextInt(16)) {
                case 0, 1, 2, 3, 4 -> {
                    token = switch (random.nextInt(12)) {
                        case 0 -> base + DAY + DAY / 2;
                        case 1 -> base - DAY;
                        case 2 -> Protocol.TOKENS_END + random.nextInt(3);
                        default -> token;
                    };
                    Proposal proposal = new Proposal(
                            name,
                            owner,
                            token,
                            random.nextInt(20) == 0 ? 600_001 : 300_000 + random.nextInt(300_000),
                            random.nextInt(3) == 0,
                            random.nextBoolean() ? DAY : 2 * DAY,
                            random.nextInt(20) == 0 ? OTHERS : TERMS);
                    Vote its = get(real.propose(proposal));
                    Vote ours = model.propose(call, proposal);
                    said = "propose " + proposal + ": " + its + ", the model " + ours;
                    assertThat(ours.answer()).as(said).isEqualTo(its.answer());
                    assertThat(ours.fence()).as(said).isEqualTo(its.fence());
                    near(ours.restMillis(), its.restMillis(), said);
                    if (its.answer() == Answer.NO_MEMORY) {
                        sameMark(marks, its.detail(), ours.detail(), said);
                        lastReal = its.detail();
                    } else {
                        assertThat(ours.detail()).as(said).isEqualTo(its.detail());
                    }
                    answers.merge(its.answer().name(), 1, Integer::sum);
                }
                case 5, 6, 7 -> {
                    List<Kept> kept = new ArrayList<>();
                    for (int k = 0; k < 1 + random.nextInt(3); k++) {
                        Optional<Look> holder = model.look(name);
                        boolean right = holder.isPresent() && random.nextBoolean();
                        kept.add(new Kept(
                                name,
                                right ? holder.get().owner() : owner,
                                holder.isPresent() && random.nextInt(4) > 0
                                        ? holder.get().token()
                                        : token,
                                300_000));
                    }
                    Renewed its = get(real.renew(kept));
                    Renewed ours = model.renew(call, kept);
                    said = "renew " + kept + ": " + its + ", the model " + ours;
                    assertThat(ours.live()).as(said).isEqualTo(its.live());
                    sameMark(marks, its.mark(), ours.mark(), said);
                    answers.merge("renewed " + its.live().contains(true), 1, Integer::sum);
                }
                case 8, 9 -> {
                    boolean its = get(real.release(name, owner));
                    said = "release " + name + " " + owner;
                    assertThat(model.release(name, owner)).as(said).isEqualTo(its);
                    answers.merge("released " + its, 1, Integer::sum);
                }
                case 10 -> {
                    Memory its = get(real.memory());
                    Memory ours = model.memory(call);
                    said = "memory: " + its + ", the model " + ours;
                    sameMark(marks, its.mark(), ours.mark(), said);
                    assertThat(ours.high()).as(said).isEqualTo(its.high());
                    assertThat(ours.terms()).as(said).isEqualTo(its.terms());
                    near(ours.nowMicros() / 1000, its.nowMicros() / 1000, said);
                    near(ours.markAtMicros() / 1000, its.markAtMicros() / 1000, said);
                    near(ours.readyAtMicros() / 1000, its.readyAtMicros() / 1000, said);
                    if (its.mark() != null) {
                        lastReal = its.mark();
                    }
                }
                case 11, 12 -> {
                    String mark = random.nextInt(5) == 0 ? "1.2.another" : lastReal;
                    long floor = base - 1000 + random.nextInt(2000);
                    boolean atOnce = random.nextInt(5) > 0;
                    boolean its = get(real.join(mark, TERMS, floor, atOnce));
                    said = "join " + mark;
                    assertThat(model.join(marks.getOrDefault(mark, mark), TERMS, floor, atOnce))
                            .as(said)
                            .isEqualTo(its);
                    answers.merge("joined " + its, 1, Integer::sum);
                }
                case 13 -> {
                    Optional<Look> its = get(real.look(name));
                    Optional<Look> ours = model.look(name);
                    said = "look: " + its + ", the model " + ours;
                    assertThat(ours.map(Look::owner)).as(said).isEqualTo(its.map(Look::owner));
                    assertThat(ours.map(Look::token)).as(said).isEqualTo(its.map(Look::token));
                    its.ifPresent(look -> near(ours.get().restMillis(), look.restMillis(), said));
                }
                case 14 -> {
                    // As if it had expired.
                    boolean key = random.nextBoolean();
                    Object unused =
                            server.ask("DEL", "mortise:redlock:" + (key ? "lock:" : "fence:") + RedisNode.encode(name));
                    if (key) {
                        model.dropKey(name);
                    } else {
                        model.dropFence(name);
                    }
                }
                default -> {
                    int what = random.nextInt(40);
                    if (what < 4) {
                        Object unused = server.ask("FLUSHALL");
                        model.flush();
                    } else if (what < 8 && restarts < 12) {
                        restarts++;
                        server.kill();
                        server.start();
                        model.restart("run" + restarts, null);
                    }
                }
            }
        }
        System.out.println("answers compared: " + answers + ", restarts with data: " + restarts);
        for (Answer each : Answer.values()) {
            assertThat(answers).as("every kind of answer was seen").containsKey(each.name());
        }
        assertThat(answers)
                .containsKeys("renewed true", "renewed false", "released true", "joined true", "joined false");
        assertThat(restarts).isPositive();
    }

    private static <T> T get(CompletableFuture<T> future) throws Exception {
        return future.get(60, TimeUnit.SECONDS);
    }

    private static void near(long ours, long its, String said) {
        assertThat(Math.abs(ours - its)).as(said).isLessThan(TOLERANCE_MILLIS);
    }

    /** The same mark as long as it is the same loss, and another one for another loss, in both. */
    private static void sameMark(Map<String, String> marks, String its, String ours, String said) {
        assertThat(ours == null).as(said).isEqualTo(its == null);
        if (its != null) {
            String known = marks.putIfAbsent(its, ours);
            assertThat(ours).as(said).isEqualTo(known == null ? ours : known);
        }
    }
}
