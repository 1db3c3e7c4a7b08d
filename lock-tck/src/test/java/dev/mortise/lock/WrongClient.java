package dev.mortise.lock;

import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Renewal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Executor;
import java.util.function.LongSupplier;

/** Clients that are wrong in one way, each with the rule that must find it. Wrong by what stands at the engine's door. */
public enum WrongClient {
    BELIEVES_IN_MORE("C1.1", "counts on half as much again as was granted"),
    SINCE_FROM_REPLY("C3.1", "counts the deadline from the arrival of the answer"),
    RENEWED_SINCE_FROM_REPLY("C3.1", "counts the renewed deadline from the arrival of the answer"),
    NO_DEADLINE("C3.2", "holds until it is told, and does not look at the clock"),
    NOT_TOLD("C3.2", "tells nobody of a loss"),
    REVIVED("C3.3", "holds again when a renewal is confirmed after the loss"),
    NEVER_RENEWS("C3.4", "does not renew"),
    ENDED_IS_LIVE("C3.5", "takes ended for live"),
    FAILURE_IS_LIVE("C3.6", "takes a renewal without an answer for confirmed"),
    FAILURE_IS_ENDED("C3.6", "takes a renewal without an answer for a loss"),
    PATIENCE_FOR_EACH_TRY("C4.1", "begins the wait anew after a try"),
    SLEEPS_ON("C4.2", "sleeps for ever longer between two questions"),
    NO_UNDO("C7.1", "does not release what it has no answer for"),
    UNDO_ONCE("C7.2", "does not think of what arrives after its undo"),
    OWNER_OF_CLIENT("C7.3", "has one owner for all its attempts"),
    OWNER_AGAIN("C7.3", "takes the owner of a failed attempt for the next"),
    RELEASE_NOT_SENT("C7.4", "forgets the lock, and does not release it in the store");

    public final String rule;
    public final String what;

    WrongClient(String rule, String what) {
        this.rule = rule;
        this.what = what;
    }

    /** What stands between the engine and the network. */
    static Gateway door(WrongClient wrong, Gateway network, LongSupplier now, Set<String> handedOut) {
        return wrong == null ? network : new Door(wrong, network, now, handedOut);
    }

    private static final class Door implements Gateway {
        private final WrongClient wrong;
        private final Gateway network;
        private final LongSupplier now;
        private final Set<String> handedOut;
        private final Map<String, String> owners = new HashMap<>();
        private final Map<String, String> failed = new HashMap<>();
        private final Set<String> undone = new HashSet<>();

        Door(WrongClient wrong, Gateway network, LongSupplier now, Set<String> handedOut) {
            this.wrong = wrong;
            this.network = network;
            this.now = now;
            this.handedOut = handedOut;
        }

        private Claim disguised(Claim claim) {
            String owner = owners.getOrDefault(claim.owner(), claim.owner());
            return Claim.of(claim.name(), owner, claim.lease());
        }

        @Override
        public Call acquire(Claim claim, Duration patience, Executor on, Answer<Attempt> done) {
            if (wrong == OWNER_OF_CLIENT) {
                owners.put(claim.owner(), "always-the-same");
            } else if (wrong == OWNER_AGAIN && failed.containsKey(claim.name())) {
                owners.put(claim.owner(), failed.remove(claim.name()));
            }
            Claim sent = disguised(claim);
            return network.acquire(sent, patience, on, (attempt, error) -> {
                if (error != null || attempt == null) {
                    failed.put(claim.name(), sent.owner());
                    done.come(attempt, error);
                    return;
                }
                done.come(attempt.grant().map(grant -> granted(claim, grant)).orElseGet(() -> refused(attempt)), null);
            });
        }

        private Attempt granted(Claim claim, Grant grant) {
            if (!grant.owner().equals(disguised(claim).owner())) {
                return Attempt.granted(grant); // nonsense stays nonsense
            }
            long since = wrong == SINCE_FROM_REPLY ? now.getAsLong() : grant.since();
            Duration lease =
                    wrong == BELIEVES_IN_MORE ? grant.lease().plus(grant.lease().dividedBy(2)) : grant.lease();
            return Attempt.granted(claim.granted(lease, grant.token(), since));
        }

        private Attempt refused(Attempt attempt) {
            return wrong == SLEEPS_ON ? Attempt.held(Duration.ofSeconds(30)) : attempt;
        }

        @Override
        public void renew(List<Grant> grants, Executor on, Answer<Renewal> done) {
            if (wrong == NEVER_RENEWS) {
                on.execute(() -> done.come(Renewal.of(List.of(), List.of()), null));
                return;
            }
            long sentAt = now.getAsLong();
            Map<String, Grant> known = new HashMap<>();
            List<Grant> sent = new ArrayList<>();
            for (Grant grant : grants) {
                Claim claim = disguised(grant.claim());
                known.put(claim.name(), grant);
                sent.add(claim.granted(grant.lease(), grant.token(), grant.since()));
            }
            network.renew(sent, on, (renewal, error) -> {
                if (wrong == FAILURE_IS_LIVE && error != null) {
                    done.come(
                            Renewal.of(
                                    grants.stream().map(g -> g.renewed(sentAt)).toList(), List.of()),
                            null);
                } else if (wrong == FAILURE_IS_ENDED && error != null) {
                    done.come(Renewal.of(List.of(), grants), null);
                } else if (renewal == null) {
                    done.come(null, error);
                } else {
                    done.come(renewed(renewal, known), null);
                }
            });
        }

        private Renewal renewed(Renewal renewal, Map<String, Grant> known) {
            List<Grant> live = new ArrayList<>();
            List<Grant> ended = new ArrayList<>();
            for (Grant grant : renewal.live()) {
                Grant ours = known.get(grant.name());
                long since = wrong == RENEWED_SINCE_FROM_REPLY ? now.getAsLong() : grant.since();
                live.add(grant.token() != ours.token() ? grant : ours.renewed(since));
            }
            for (Grant grant : renewal.ended()) {
                Grant ours = known.get(grant.name());
                if (wrong == ENDED_IS_LIVE) {
                    live.add(ours.renewed(now.getAsLong()));
                } else {
                    ended.add(ours);
                }
            }
            return Renewal.of(live, ended);
        }

        @Override
        public void release(Claim claim, Executor on, Answer<Boolean> done) {
            boolean drops = switch (wrong) {
                case NO_UNDO -> !handedOut.contains(claim.owner());
                case RELEASE_NOT_SENT -> handedOut.contains(claim.owner());
                case UNDO_ONCE -> undone.contains(claim.owner());
                default -> false;
            };
            if (drops) {
                on.execute(() -> done.come(true, null));
                return;
            }
            network.release(disguised(claim), on, (live, error) -> {
                if (error == null) {
                    undone.add(claim.owner());
                }
                done.come(live, error);
            });
        }

        @Override
        public void adopt(Grant held, Claim heir, Executor on, Answer<Grant> done) {
            network.adopt(held, heir, on, done);
        }
    }
}
