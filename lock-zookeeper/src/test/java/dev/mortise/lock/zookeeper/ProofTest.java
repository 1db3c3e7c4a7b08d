package dev.mortise.lock.zookeeper;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/**
 * {@link Proof} against a model of what the servers do, in virtual time: a leader that pings each half tick and is paused now
 * and then, a follower that is paused now and then, ways between them that deliver in order and whenever they like, and a client
 * that asks whenever it likes. The session must never end before the proof says.
 */
class ProofTest {
    private static final long HALF_TICK = 100;
    private static final long TIMEOUT = 1200;
    private static final int SEEDS = 3_000;

    /** What is under way: in the order of its sending, and not before its time. */
    private static final class Way {
        private final List<long[]> items = new ArrayList<>();
        private long last;

        void send(long now, long delay, long kind, long value) {
            last = Math.max(last, now + delay);
            items.add(new long[] {last, kind, value});
        }

        long[] take(long now) {
            return !items.isEmpty() && items.get(0)[0] <= now ? items.remove(0) : null;
        }
    }

    private static final int PING = 0;
    private static final int WRITE = 1;
    private static final int READ = 2;

    /** How a wrong proof would count. */
    private interface Judge {
        void answered(long sent, long at, boolean write);

        long end();
    }

    /** The most by which the session ended before it was promised to; 0 or less if it never did. */
    private static long worst(long seed, boolean leaderPauses, Judge judge) {
        SplittableRandom random = new SplittableRandom(seed);
        Way toFollower = new Way();
        Way toLeader = new Way();
        Way toClient = new Way();
        List<Long> sentAt = new ArrayList<>();
        List<Boolean> writes = new ArrayList<>();
        long touchedAtLeader = 0;
        boolean touched = false;
        long nextPing = random.nextLong(HALF_TICK);
        long leaderWakes = 0;
        long followerWakes = 0;
        long promised = TIMEOUT;
        long worst = Long.MIN_VALUE;
        long spread = 1 + random.nextLong(250);
        long nextAsk = random.nextLong(50);
        long asks = 1 + random.nextLong(400);
        boolean cut = false;
        for (long now = 0; now < 12_000; now++) {
            // The client: it stops to ask at some time, and so everything depends on what was promised by then.
            if (now >= nextAsk && now < 9_000) {
                nextAsk = now + 1 + random.nextLong(asks);
                boolean write = random.nextInt(3) > 0;
                sentAt.add(now);
                writes.add(write);
                toFollower.send(now, random.nextLong(20), write ? WRITE : READ, -sentAt.size());
            }
            if (random.nextInt(700) == 0) {
                followerWakes = now + random.nextLong(900);
            }
            if (leaderPauses && random.nextInt(700) == 0) {
                leaderWakes = now + random.nextLong(900);
            }
            if (random.nextInt(2_000) == 0) {
                cut = !cut; // What is sent stays on its way for long.
            }
            if (now >= followerWakes) {
                // Negative: from the client. What comes from the leader is in the same list for simplicity of the order
                // only.
                for (long[] item = toFollower.take(now); item != null; item = toFollower.take(now)) {
                    if (item[2] < 0) {
                        touched = true;
                        if (item[1] == WRITE) {
                            toLeader.send(now, delay(random, spread, cut), WRITE, -item[2]);
                        } else {
                            toClient.send(now, random.nextLong(20), READ, -item[2]);
                        }
                    }
                }
                for (long[] item = fromLeader.take(now); item != null; item = fromLeader.take(now)) {
                    if (item[1] == PING) {
                        toLeader.send(now, delay(random, spread, cut), PING, touched ? 1 : 0);
                        touched = false;
                    } else {
                        toClient.send(now, random.nextLong(20), WRITE, item[2]);
                    }
                }
            }
            if (now >= leaderWakes) {
                if (now - touchedAtLeader >= TIMEOUT) {
                    // It ends now. What was promised by now must be over.
                    fromLeader.items.clear();
                    return Math.max(worst, promised - now);
                }
                if (now >= nextPing) {
                    nextPing = now + HALF_TICK;
                    fromLeader.send(now, delay(random, spread, cut), PING, 0);
                }
                for (long[] item = toLeader.take(now); item != null; item = toLeader.take(now)) {
                    if (item[1] == PING) {
                        touchedAtLeader = item[2] == 1 ? now : touchedAtLeader;
                    } else {
                        fromLeader.send(now + 1, delay(random, spread, cut), WRITE, item[2]);
                    }
                }
            }
            for (long[] item = toClient.take(now); item != null; item = toClient.take(now)) {
                int number = (int) item[2] - 1;
                judge.answered(sentAt.get(number), now, writes.get(number));
                promised = Math.max(promised, judge.end());
            }
        }
        fromLeader.items.clear();
        return worst;
    }

    private static Way fromLeader = new Way();

    private static long delay(SplittableRandom random, long spread, boolean cut) {
        return 1 + random.nextLong(spread) + (cut ? random.nextLong(2_000) : 0);
    }

    private static long worstOf(java.util.function.Supplier<Judge> judges, boolean leaderPauses) {
        long worst = Long.MIN_VALUE;
        for (long seed = 0; seed < SEEDS; seed++) {
            fromLeader = new Way();
            worst = Math.max(worst, worst(seed, leaderPauses, judges.get()));
        }
        return worst;
    }

    private static Judge proof() {
        Proof proof = new Proof(HALF_TICK + 5, 1);
        proof.opened(0, TIMEOUT);
        return new Judge() {
            @Override
            public void answered(long sent, long at, boolean write) {
                proof.answered(sent, at, write);
            }

            @Override
            public long end() {
                return proof.end();
            }
        };
    }

    @Test
    void theSessionNeverEndsBeforeItIsPromisedTo() {
        assertThat(worstOf(ProofTest::proof, false)).isLessThanOrEqualTo(0);
    }

    /** It goes on with pinging as soon as it goes on at all. */
    @Test
    void norWhereTheLeaderIsPaused() {
        assertThat(worstOf(ProofTest::proof, true)).isLessThanOrEqualTo(0);
    }

    /** The model is one that shows mistakes: each answered write taken for a sign of life. */
    @Test
    void aWriteAloneProvesNothing() {
        assertThat(worstOf(
                        () -> new Judge() {
                            private long end = TIMEOUT;

                            @Override
                            public void answered(long sent, long at, boolean write) {
                                end = write ? Math.max(end, sent + TIMEOUT) : end;
                            }

                            @Override
                            public long end() {
                                return end;
                            }
                        },
                        false))
                .isPositive();
    }

    /** Two writes with a ping's time between them: the answer to that ping may still be on its way. */
    @Test
    void norDoTwo() {
        assertThat(worstOf(
                        () -> new Judge() {
                            private final List<long[]> answered = new ArrayList<>();
                            private long end = TIMEOUT;

                            @Override
                            public void answered(long sent, long at, boolean write) {
                                for (long[] each : answered) {
                                    if (write && each[1] <= sent - HALF_TICK - 5) {
                                        end = Math.max(end, each[0] + TIMEOUT);
                                    }
                                }
                                answered.add(new long[] {sent, at});
                            }

                            @Override
                            public long end() {
                                return end;
                            }
                        },
                        false))
                .isPositive();
    }

    @Test
    void aNewSessionLivesFromItsConnectionOn() {
        Proof proof = new Proof(100, 1);
        assertThat(proof.isOpened()).isFalse();
        proof.opened(-50, 1000);
        assertThat(proof.isOpened()).isTrue();
        assertThat(proof.end()).isEqualTo(950);
        proof.answered(0, 10, true);
        proof.answered(20, 30, true);
        assertThat(proof.end()).as("no ping's time has gone by").isEqualTo(950);
        proof.answered(110, 120, true);
        assertThat(proof.end()).as("nothing was sent behind the answer").isEqualTo(950);
        proof.answered(120, 130, false);
        assertThat(proof.end()).as("a read does not go that way").isEqualTo(950);
        proof.answered(130, 140, true);
        assertThat(proof.end()).isEqualTo(1000);
    }

    /** The ticker may begin anywhere, and run over. */
    @Test
    void theTickerMayRunOver() {
        long start = Long.MAX_VALUE - 100;
        Proof proof = new Proof(100, 1);
        proof.opened(start - 50, 1000);
        proof.answered(start, start + 10, true);
        proof.answered(start + 110, start + 120, true);
        proof.answered(start + 130, start + 140, true);
        assertThat(proof.end()).isEqualTo(start + 1000);
    }
}
