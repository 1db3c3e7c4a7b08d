package dev.mortise.lock.tck;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Consistency;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.spi.StoreEvent;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * A store in memory with a queue, a network and a lag, in real or virtual time: right, or wrong in one way. It is what
 * the kit itself is tested on.
 */
final class SketchStore implements Store, Faults {
    private static final long ONE_WAY = 1_000_000;

    private final Clock clock;
    private final Wrong wrong;
    private final long lag;
    private final SketchServers servers;

    // Those of the server that the request goes to which is being carried out.
    private Map<String, Row> rows;
    private Map<String, Long> tokens;
    private Map<String, List<Row>> queues;
    private final Map<Integer, List<Row>> byClient = new HashMap<>();
    private final SplittableRandom random = new SplittableRandom(7);
    private final Set<Client> closed = new HashSet<>();
    private boolean allClosed;
    private volatile long delay;
    private volatile boolean lose;
    private final Set<String> held = new HashSet<>();

    /** When the request that is being carried out came, if it is judged by that; else 0. */
    private long arrival;

    private int clients;
    private int calls;

    static final class Row {
        final String key;
        final String owner;
        final int client;
        long token;
        long lease;
        long end;
        String formerOwner = "";
        long freeAt = Long.MAX_VALUE;

        Row(String key, String owner, int client, long lease) {
            this.key = key;
            this.owner = owner;
            this.client = client;
            this.lease = lease;
        }

        Row copy() {
            Row copy = new Row(key, owner, client, lease);
            copy.token = token;
            copy.end = end;
            copy.formerOwner = formerOwner;
            copy.freeAt = freeAt;
            return copy;
        }
    }

    /** Right, if {@code wrong} is null. */
    SketchStore(Clock clock, Wrong wrong, Duration lag) {
        this.clock = clock;
        this.wrong = wrong;
        this.lag = lag.toNanos();
        servers = new SketchServers(this, wrong);
        at(0);
    }

    /** Requests of this client go to its server from now on. */
    private void at(int client) {
        SketchServers.Data data = servers.of(client);
        rows = data.rows();
        tokens = data.tokens();
        queues = data.queues();
    }

    private long now() {
        return clock.now() + servers.step();
    }

    private boolean is(Wrong one) {
        return wrong == one;
    }

    @Override
    public LockBackend connect() {
        return connect(Duration.ofSeconds(3));
    }

    @Override
    public synchronized LockBackend connect(Duration callTimeout) {
        servers.connect();
        return new Client(clients++, callTimeout);
    }

    int clients() {
        return clients;
    }

    @Override
    public synchronized void evict(String name) {
        at(clients);
        rows.remove(key(name));
        notifyAll();
    }

    @Override
    public Set<Fault> possible() {
        return servers.possible();
    }

    @Override
    public Map<StoreEvent, String> impossible() {
        return is(Wrong.IMPOSSIBLE_AND_POSSIBLE) ? Map.of(StoreEvent.CONNECTION_LOSS, "there is none") : Map.of();
    }

    @Override
    public AutoCloseable begin(Fault fault) throws InterruptedException {
        return servers.begin(fault);
    }

    @Override
    public Optional<Faults> faults() {
        return Optional.of(this);
    }

    @Override
    public void loseReply() {
        lose = true;
    }

    @Override
    public void heal() {
        delay = 0;
        lose = false;
    }

    @Override
    public void delayReplies(Duration by) {
        delay = by.toNanos();
    }

    @Override
    public synchronized Optional<AutoCloseable> holdUp(String name) {
        if (!is(Wrong.HOLDS_NOTHING_UP)) {
            held.add(key(name));
        }
        return Optional.of(() -> {
            synchronized (this) {
                held.remove(key(name));
                notifyAll();
            }
        });
    }

    /** In the store a request waits while one of its names is held up. */
    private void waitWhileHeldUp(Collection<String> names) {
        long came = clock.now();
        boolean interrupted = false;
        while (names.stream().map(this::key).anyMatch(held::contains)) {
            if (clock instanceof VirtualClock virtual) {
                virtual.toNextAlarm();
            } else {
                try {
                    wait();
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        arrival = is(Wrong.CLOCK_OF_THE_ARRIVAL) ? came : 0;
    }

    private String key(String name) {
        return switch (wrong == null ? Wrong.NO_CHECK : wrong) {
            case NAMES_FOLDED -> name.toLowerCase(Locale.ROOT);
            case NAMES_CUT -> name.substring(0, Math.min(191, name.length()));
            case NAMES_PADDED -> name.stripTrailing();
            case NAMES_HASHED -> Integer.toHexString(name.hashCode());
            case NAMES_TOO_LONG -> {
                if (name.length() > 255) {
                    throw new LockStoreException("sketch", "acquire", "use a shorter name", false, null);
                }
                yield name;
            }
            case NAMES_OF_LETTERS -> {
                if (name.chars().anyMatch(Character::isISOControl)) {
                    throw new IllegalArgumentException("not printable");
                }
                yield name;
            }
            default -> name;
        };
    }

    /** The live row of a name; at the end of one, the next in the queue. */
    private Row live(String key) {
        long now = arrival == 0 ? now() : arrival;
        Row row = rows.get(key);
        if (row != null && (now - row.end >= 0 || now - row.freeAt >= 0) && !is(Wrong.NEVER_ENDS)) {
            rows.remove(key);
            row = null;
        }
        List<Row> queue = queues.get(key);
        if (row == null && queue != null && !queue.isEmpty()) {
            row = queue.remove(0);
            start(row);
            rows.put(key, row);
            notifyAll();
        }
        return row;
    }

    private void start(Row row) {
        long kept = is(Wrong.ENDS_EARLY) ? row.lease / 2 : row.lease + lag;
        if (is(Wrong.ENDS_TWICE_AS_LATE)) {
            kept = 2 * row.lease;
        }
        row.end = now() + kept;
        if (row.token == 0) {
            row.token = next(row);
        }
        List<Row> own = byClient.computeIfAbsent(row.client, c -> new ArrayList<>());
        if (is(Wrong.CARRIER_AGED)) {
            for (Row other : own) {
                if (rows.get(other.key) == other && other.end - now() > 0) {
                    row.end = Math.min(row.end, other.end);
                }
            }
        }
        if (!own.contains(row)) {
            own.add(row);
        }
    }

    private long next(Row row) {
        String counter = row.key;
        if (is(Wrong.TOKEN_BY_WALL_CLOCK)) {
            return TimeUnit.DAYS.toNanos(1) + now();
        }
        if (is(Wrong.TOKEN_CONSTANT)) {
            return 1;
        }
        if (is(Wrong.TOKEN_BY_CLIENT)) {
            counter = row.key + " " + row.client;
        }
        if (is(Wrong.TOKEN_RANDOM)) {
            return 1 + random.nextLong(Long.MAX_VALUE - 1);
        }
        if (is(Wrong.TOKEN_SHARED)) {
            // Every second holder has the token of the one before.
            return 1 + tokens.merge(counter, 1L, Long::sum) / 2;
        }
        return tokens.merge(counter, 1L, Long::sum);
    }

    /** What a request does in the store. */
    private interface Request<T, E extends Exception> {
        T carryOut() throws E;
    }

    /** One client. */
    private final class Client implements LockBackend {
        private final int number;
        private final Duration callTimeout;
        private final int connection = servers.connections();
        private final Map<String, Long> drawn = new HashMap<>();
        private final Set<String> thoughtHeld = new HashSet<>();
        private final Set<String> lostReleases = ConcurrentHashMap.newKeySet();
        private final Set<String> lostHeirs = ConcurrentHashMap.newKeySet();
        private volatile boolean isClosed;

        Client(int number, Duration callTimeout) {
            this.number = number;
            this.callTimeout = callTimeout;
        }

        /** One request and its answer. */
        private <T, E extends Exception> T call(Collection<String> names, Request<T, E> request) throws E {
            if (clock instanceof VirtualClock virtual) {
                virtual.pass(ONE_WAY);
            }
            if (allClosed || isClosed) {
                throw new LockStoreException("sketch", "a call", "open another", false, null);
            }
            int sentOver;
            T answer;
            synchronized (SketchStore.this) {
                sentOver = servers.connections();
                servers.arrive(number, connection, callTimeout, () -> late(request));
                waitWhileHeldUp(names);
                at(number);
                answer = request.carryOut();
                SketchStore.this.notifyAll();
            }
            back(sentOver);
            return answer;
        }

        private <T, E extends Exception> void late(Request<T, E> request) {
            at(number);
            try {
                request.carryOut();
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
            if (is(Wrong.GHOST_WITHOUT_LEASE)) {
                rows.values().stream().filter(row -> row.client == number).forEach(row -> row.end = Long.MAX_VALUE);
            }
        }

        private void back(int sentOver) {
            if (clock instanceof VirtualClock virtual) {
                virtual.pass(ONE_WAY + delay);
            } else if (delay > 0) {
                LockSupport.parkNanos(delay);
            }
            boolean lost = lose;
            lose = false;
            if (lost) {
                throw servers.unanswered("a call");
            }
            synchronized (SketchStore.this) {
                servers.reply(sentOver, callTimeout);
            }
        }

        @Override
        public Guarantees guarantees() {
            boolean outlives = !is(Wrong.ADOPTS_UNDECLARED);
            long more = is(Wrong.CHANGES_ITS_MIND) ? calls++ : 0;
            return Guarantees.builder(Consistency.BEST_EFFORT)
                    .exclusionSurvives(survives(Wrong.DECLARES_TOO_LITTLE, Wrong.TOKENS_REPLICATED_LATER))
                    .tokensSurvive(survives(Wrong.DECLARES_TOO_LITTLE, Wrong.DECLARES_TOO_FEW_TOKENS))
                    .leases(Duration.ofMillis(10 + more), Duration.ofDays(1), Duration.ofMillis(1))
                    .freedWithin(lease -> is(Wrong.FREED_TOO_SOON) ? lease.dividedBy(2) : lease.plusNanos(lag))
                    .outlivesClient(outlives)
                    .build();
        }

        /** Everything but the loss of data, and what these do not declare. */
        private StoreEvent[] survives(Wrong... less) {
            Set<StoreEvent> events = EnumSet.of(StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH);
            if (!Arrays.asList(less).contains(wrong)) {
                servers.possible().forEach(fault -> events.add(fault.event()));
                events.remove(StoreEvent.RESTART_WITHOUT_DATA);
            }
            if (is(Wrong.DECLARES_WITHOUT_A_FAULT)) {
                events.add(StoreEvent.FAILOVER);
            }
            return events.toArray(StoreEvent[]::new);
        }

        @Override
        public Attempt acquire(Claim claim, Duration patience) throws InterruptedException {
            long sent = clock.now();
            if (is(Wrong.CHECK_THEN_ACT)) {
                return checkThenAct(claim, sent);
            }
            Attempt attempt;
            try {
                attempt = call(List.of(claim.name()), () -> acquireNow(claim, patience, sent));
            } catch (LockStoreException e) {
                if (is(Wrong.SILENCE_IS_NO)) {
                    return Attempt.held(Duration.ofMillis(5));
                }
                if (is(Wrong.RESENDS_WITH_NEW_OWNER) || is(Wrong.RESENDS_WITH_LATER_SINCE)) {
                    return resend(claim);
                }
                throw e;
            }
            if (is(Wrong.SINCE_FROM_REPLY) && attempt.grant().isPresent()) {
                Grant grant = attempt.grant().get();
                return Attempt.granted(claim.granted(grant.lease(), grant.token(), clock.now()));
            }
            return attempt;
        }

        /** As a driver does that was not told not to. */
        private Attempt resend(Claim claim) throws InterruptedException {
            long sent = clock.now();
            return call(List.of(claim.name()), () -> {
                if (is(Wrong.RESENDS_WITH_NEW_OWNER)) {
                    return acquireNow(Claim.of(claim.name(), claim.owner() + "~2", claim.lease()), Duration.ZERO, sent);
                }
                Row row = live(key(claim.name()));
                if (row == null || !row.owner.equals(claim.owner())) {
                    return acquireNow(claim, Duration.ZERO, sent);
                }
                return Attempt.granted(claim.granted(claim.lease(), row.token, sent));
            });
        }

        private Attempt checkThenAct(Claim claim, long sent) throws InterruptedException {
            synchronized (SketchStore.this) {
                at(number);
                Row row = live(key(claim.name()));
                if (row != null && !row.owner.equals(claim.owner())) {
                    return held(row);
                }
            }
            TimeUnit.MILLISECONDS.sleep(5);
            synchronized (SketchStore.this) {
                return take(claim, sent);
            }
        }

        private Attempt acquireNow(Claim claim, Duration patience, long sent) throws InterruptedException {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            String key = key(claim.name());
            Row row = live(key);
            if (is(Wrong.REFUSES_NOW_AND_THEN) && ++calls % 4 == 0) {
                return Attempt.held(Duration.ofMillis(5));
            }
            if (is(Wrong.RELEASE_UNSEEN) && row == null && thoughtHeld.remove(key)) {
                return Attempt.held(Duration.ofMillis(5));
            }
            if (row != null && row.owner.equals(claim.owner())) {
                if (is(Wrong.REFUSES_ITS_OWNER)) {
                    return held(row);
                }
                if (is(Wrong.SECOND_TOKEN)) {
                    row.token = next(row);
                }
                start(row);
                return Attempt.granted(claim.granted(claim.lease(), row.token, sent));
            }
            if (row == null || is(Wrong.NO_CHECK)) {
                return take(claim, sent);
            }
            if (is(Wrong.TOKEN_BEFORE_LOCK)) {
                drawn.computeIfAbsent(key, k -> next(row));
            }
            if (patience.isZero() && !is(Wrong.ZERO_WAITS)) {
                if (is(Wrong.REFUSED_STAYS_QUEUED)) {
                    queue(claim);
                }
                return held(row);
            }
            return await(claim, patience, row);
        }

        private Row queue(Claim claim) {
            Row waiting = new Row(
                    key(claim.name()), claim.owner(), number, claim.lease().toNanos());
            waiting.end = clock.now() + waiting.lease;
            queues.computeIfAbsent(waiting.key, k -> new ArrayList<>()).add(waiting);
            return waiting;
        }

        private Attempt await(Claim claim, Duration patience, Row holder) throws InterruptedException {
            arrival = 0;
            Row waiting = queue(claim);
            long queued = clock.now();
            boolean ever = is(Wrong.PATIENCE_IGNORED) || is(Wrong.ZERO_WAITS);
            List<Row> queue = Objects.requireNonNull(queues.get(waiting.key));
            if (is(Wrong.WAKE_UP_LOST)) {
                queue.remove(waiting);
            }
            long until = queued + patience.toNanos();
            int connected = servers.connections();
            while (ever || until - clock.now() > 0) {
                if (!is(Wrong.WAKE_UP_LOST) && live(waiting.key) == waiting) {
                    if (is(Wrong.QUEUE_TAKEN_FOR_GRANT) && clock.now() - queued > waiting.lease) {
                        // Its entry had a lease of its own, which is over.
                        rows.remove(waiting.key, waiting);
                        return Attempt.granted(claim.granted(claim.lease(), waiting.token, clock.now()));
                    }
                    // Confirmed now, so the lease counts from now.
                    start(waiting);
                    return Attempt.granted(claim.granted(claim.lease(), waiting.token, clock.now()));
                }
                try {
                    SketchStore.this.wait(2);
                    at(number);
                    if (connected != servers.connections() && !is(Wrong.WAITER_NOT_BACK)) {
                        queue.remove(waiting);
                        throw servers.unanswered("acquire: connection reset");
                    }
                } catch (InterruptedException e) {
                    if (!is(Wrong.INTERRUPTED_STAYS_QUEUED)) {
                        queue.remove(waiting);
                    }
                    throw e;
                }
            }
            if (!is(Wrong.REFUSED_STAYS_QUEUED)) {
                queue.remove(waiting);
            }
            return held(holder);
        }

        private Attempt take(Claim claim, long sent) {
            boolean inside = is(Wrong.OWNER_MADE_INSIDE) && lose;
            String owner = inside ? "inside" : claim.owner();
            Row row = new Row(key(claim.name()), owner, number, claim.lease().toNanos());
            row.token = drawn.getOrDefault(row.key, 0L);
            drawn.remove(row.key);
            start(row);
            rows.put(row.key, row);
            return Attempt.granted(claim.granted(claim.lease(), row.token, sent));
        }

        private Attempt held(Row row) {
            if (is(Wrong.HELD_IS_A_BUG)) {
                throw new IllegalStateException("duplicate key");
            }
            if (is(Wrong.HELD_IS_A_FAILURE)) {
                throw new LockStoreException("sketch", "acquire: duplicate key", "try again", false, null);
            }
            thoughtHeld.add(row.key);
            if (is(Wrong.REFUSAL_LENGTHENS)) {
                start(row);
            }
            Duration rest = Duration.ofNanos(row.end - now());
            return Attempt.held(Duration.ofMillis(5), is(Wrong.REST_IN_OTHER_UNITS) ? rest.multipliedBy(1000) : rest);
        }

        @Override
        public Renewal renew(Collection<Grant> grants) {
            long sent = clock.now();
            List<Grant> live = new ArrayList<>();
            List<Grant> ended = new ArrayList<>();
            try {
                call(grants.stream().map(Grant::name).toList(), () -> {
                    for (Grant grant : grants) {
                        renew(grant, sent, live, ended);
                    }
                    return true;
                });
            } catch (LockStoreException e) {
                if (is(Wrong.SILENCE_IS_YES)) {
                    return Renewal.of(grants.stream().map(g -> g.renewed(sent)).toList(), List.of());
                }
                if (is(Wrong.LOST_RENEWAL_IS_ENDED)) {
                    return Renewal.of(List.of(), grants);
                }
                throw e;
            }
            if (is(Wrong.ALL_OR_NOTHING) && !ended.isEmpty()) {
                live.clear();
                ended.clear();
                ended.addAll(grants);
            }
            if (is(Wrong.RENEWED_SINCE_FROM_REPLY)) {
                live.replaceAll(grant -> grant.renewed(clock.now()));
            }
            return Renewal.of(live, ended);
        }

        private void renew(Grant grant, long sent, List<Grant> live, List<Grant> ended) {
            String key = key(grant.name());
            Row gone = rows.get(key);
            Row row = live(key);
            boolean own = row != null && row.owner.equals(grant.owner());
            if (row == null && is(Wrong.RENEW_RECREATES)) {
                take(grant.claim(), sent);
                rows.get(key).token = grant.token();
                live.add(grant.renewed(sent));
                return;
            }
            if (row == null && gone != null && gone.owner.equals(grant.owner()) && is(Wrong.RENEW_IGNORES_END)) {
                rows.put(key, gone);
                start(gone);
                live.add(grant.renewed(sent));
                return;
            }
            if (row != null && !own && (is(Wrong.RENEW_IGNORES_OWNER) || is(Wrong.RENEW_LENGTHENS_OTHERS))) {
                start(row);
            }
            boolean former = row != null && row.formerOwner.equals(grant.owner()) && is(Wrong.ADOPT_BESIDE);
            boolean any = row != null && (is(Wrong.RENEW_IGNORES_OWNER) || is(Wrong.RENEW_SEES_ANY));
            if (is(Wrong.RENEW_GIVES_UP) && ++calls % 2 == 1) {
                ended.add(grant);
                return;
            }
            if (!own && !former && !any) {
                ended.add(grant);
                return;
            }
            if (own && !is(Wrong.RENEW_DOES_NOTHING)) {
                start(row);
            }
            if (is(Wrong.CARRIER_KEPT_ALIVE)) {
                byClient.getOrDefault(number, List.of()).forEach(other -> {
                    if (rows.get(other.key) == other) {
                        start(other);
                    }
                });
            }
            if (own && is(Wrong.TOKEN_NEW_AT_RENEWAL)) {
                row.token = next(row);
                live.add(grant.claim().granted(grant.lease(), row.token, sent));
                return;
            }
            live.add(grant.renewed(sent));
        }

        @Override
        public boolean release(Claim claim) {
            boolean done;
            try {
                done = call(List.of(claim.name()), () -> releaseNow(claim));
            } catch (LockStoreException e) {
                lostReleases.add(claim.owner());
                throw e;
            }
            return done || is(Wrong.RELEASE_ALWAYS_TRUE);
        }

        private boolean releaseNow(Claim claim) {
            String key = key(claim.name());
            if (!is(Wrong.REFUSED_STAYS_QUEUED) && !is(Wrong.INTERRUPTED_STAYS_QUEUED)) {
                List<Row> queue = queues.get(key);
                if (queue != null) {
                    queue.removeIf(waiting -> waiting.owner.equals(claim.owner()));
                }
            }
            Row row = live(key);
            if (row == null || !row.owner.equals(claim.owner())) {
                boolean again = is(Wrong.RELEASE_AGAIN_BY_NAME) && lostReleases.contains(claim.owner());
                if (row != null && (is(Wrong.RELEASE_IGNORES_OWNER) || again)) {
                    rows.remove(key);
                }
                if (is(Wrong.RELEASE_ONCE)) {
                    throw new IllegalStateException("not held");
                }
                return false;
            }
            if (is(Wrong.RELEASE_LATER)) {
                row.freeAt = now() + 20_000_000;
            } else if (!is(Wrong.RELEASE_DOES_NOTHING)) {
                rows.remove(key);
            }
            if (is(Wrong.RELEASES_ALL_NAMES)) {
                rows.values().removeIf(other -> other.client == number);
            }
            if (is(Wrong.TOKEN_GOES_WITH_THE_LOCK)) {
                tokens.remove(key);
            }
            return true;
        }

        @Override
        public Optional<Grant> adopt(Grant held, Claim heir) {
            long sent = clock.now();
            try {
                return call(List.of(heir.name()), () -> adoptNow(held, heir, sent));
            } catch (LockStoreException e) {
                lostHeirs.add(heir.owner());
                throw e;
            }
        }

        private Optional<Grant> adoptNow(Grant held, Claim heir, long sent) {
            String key = key(heir.name());
            Row row = live(key);
            if (is(Wrong.ADOPT_NOTHING) || (is(Wrong.LOST_ADOPT_IS_NOTHING) && lostHeirs.contains(heir.owner()))) {
                return Optional.empty();
            }
            if (is(Wrong.HEIR_BEHIND_WAITERS) && row != null && row.owner.equals(held.owner())) {
                rows.remove(key);
                if (live(key) != null) {
                    return Optional.empty();
                }
            }
            if (row != null && row.owner.equals(heir.owner())) {
                if (is(Wrong.ADOPT_AGAIN_RAISES)) {
                    row.token = next(row);
                }
                start(row);
                return Optional.of(heir.granted(heir.lease(), row.token, sent));
            }
            boolean same = row != null && row.owner.equals(held.owner()) && row.token == held.token();
            boolean second = row != null && row.formerOwner.equals(held.owner()) && is(Wrong.ADOPT_TWICE);
            if (!same && !second && !(row == null && is(Wrong.ADOPT_REVIVES))) {
                return Optional.empty();
            }
            Row next = new Row(key, heir.owner(), number, heir.lease().toNanos());
            next.formerOwner = held.owner();
            next.token = is(Wrong.ADOPT_KEEPS_TOKEN) ? held.token() : 0;
            start(next);
            rows.put(key, next);
            return Optional.of(heir.granted(heir.lease(), next.token, sent));
        }

        @Override
        public void close() {
            isClosed = true;
            synchronized (SketchStore.this) {
                at(number);
                SketchStore.this.notifyAll();
                if (!closed.add(this) && is(Wrong.CLOSE_ONCE)) {
                    throw new IllegalStateException("closed");
                }
                if (is(Wrong.CLOSE_RELEASES)) {
                    rows.values().removeIf(row -> row.client == number);
                }
                if (is(Wrong.CLOSE_FOR_ALL)) {
                    allClosed = true;
                }
            }
        }
    }
}
