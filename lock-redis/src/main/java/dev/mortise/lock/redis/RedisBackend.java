package dev.mortise.lock.redis;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Consistency;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.Holder;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.spi.StoreEvent;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisAskDataException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.exceptions.JedisNoScriptException;
import redis.clients.jedis.exceptions.JedisRedirectionException;

/**
 * Locks in one Redis. A claim is a key with an owner, a token and an end by the server's clock; each step is one script,
 * so that nothing comes in between, and one exchange.
 *
 * <p>Tokens need no counter that lives for ever: a new one is larger than that of the last day's last grant, and not
 * below the server's clock in microseconds.
 *
 * <p>An acquire that arrives after its release, by another connection or late, finds a mark and takes nothing.
 */
final class RedisBackend implements LockBackend {
    private static final Logger LOG = System.getLogger(RedisBackend.class.getName());

    static final Guarantees GUARANTEES = Guarantees.builder(Consistency.BEST_EFFORT)
            // Not a restart: a server that is killed loses what it had not written yet, by default the last minutes.
            // Not a
            // failover: replicas are behind. Not a clock step: leases end by the wall clock.
            .exclusionSurvives(StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH, StoreEvent.CONNECTION_LOSS)
            // Whatever is lost, the clock goes on. It takes the loss of the fence and a clock set back by more than
            // that
            // took to see a token again.
            .tokensSurvive(
                    StoreEvent.RELEASE_AND_EXPIRY,
                    StoreEvent.CLIENT_CRASH,
                    StoreEvent.CONNECTION_LOSS,
                    StoreEvent.STORE_RESTART,
                    StoreEvent.RESTART_WITHOUT_DATA,
                    StoreEvent.FAILOVER,
                    StoreEvent.STORE_CLOCK_STEP)
            .leases(Duration.ofMillis(100), Duration.ofDays(365), Duration.ofMillis(1))
            // One millisecond is added by the scripts, and a key ends when its millisecond is over.
            .freedWithin(lease -> lease.plusMillis(50).compareTo(Duration.ofMillis(150)) < 0
                    ? Duration.ofMillis(150)
                    : lease.plusMillis(50))
            .fair(false)
            .outlivesClient(true)
            .build();

    /** How soon to come back where nobody tells of releases. */
    private static final Duration PAUSE = Duration.ofMillis(20);

    /** How long an acquire may be under way and still find that it was released: as long as networks keep things. */
    private static final String MARK_MILLIS = String.valueOf(TimeUnit.MINUTES.toMillis(10));

    /** For so long a client that released a name for which others wait lets them go first: the way of a message and back. */
    private static final long HEAD_START = TimeUnit.MILLISECONDS.toNanos(1);

    /** For so long it is believed that others wait for what they waited for. A release asks anew. */
    private static final long LATELY = TimeUnit.SECONDS.toNanos(3);

    /** How many leases one run of the script renews at most: the server does nothing else meanwhile. */
    private static final int BATCH = 100;

    private final String store;
    private final String prefix;
    private final int replicas;
    private final boolean slotted;
    private final Servers servers;
    private final Subscriber hints;
    private final BackendContext context;
    private final AtomicBoolean toldOfSilence = new AtomicBoolean();

    /** Until when others go first, by channel. Few, and forgotten. */
    private final Map<String, Long> othersFirst = new ConcurrentHashMap<>();

    /** Until when it is believed that others wait for what they waited for at the last release. Few, and forgotten. */
    private final Map<String, Long> othersLately = new ConcurrentHashMap<>();

    /**
     * @param store as people know it, without secrets
     * @param replicas how many must have a grant before it counts; 0 for none
     * @param slotted whether names are spread over several servers
     */
    RedisBackend(String store, String prefix, int replicas, boolean slotted, Servers servers, BackendContext context) {
        this.store = store;
        this.prefix = prefix;
        this.replicas = replicas;
        this.slotted = slotted;
        this.servers = servers;
        this.context = context;
        hints = new Subscriber(servers, context.callTimeout().toNanos());
        servers.start(hints);
    }

    /** Looks whether the store can be used at all; closes this if not. */
    RedisBackend probed(Probe probe) {
        boolean fine = false;
        try (Wait wait = Wait.uninterruptible(context.callTimeout())) {
            Collection<HostAndPort> all = servers.all(wait);
            // One that hangs leaves the others their share.
            Duration share = all.size() == 1
                    ? context.callTimeout()
                    : context.callTimeout().dividedBy(Math.min(4, all.size() + 1));
            int looked = 0;
            Trouble silent = null;
            for (HostAndPort each : all) {
                try {
                    look(probe, each, wait.part(share));
                    looked++;
                } catch (Trouble e) {
                    if (!e.isSilence()) {
                        throw e;
                    }
                    silent = e;
                    if (all.size() > 1) {
                        LOG.log(
                                Level.WARNING,
                                store + ": " + each + " cannot be reached (" + e.getMessage()
                                        + "); it was not checked, and its names cannot be locked meanwhile");
                    }
                }
            }
            if (looked == 0 && silent != null) {
                throw silent;
            }
            fine = true;
            return this;
        } catch (Trouble e) {
            throw failed("open", e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        } finally {
            if (!fine) {
                close();
            }
        }
    }

    private void look(Probe probe, HostAndPort at, Wait wait) throws Trouble, InterruptedException {
        Link link = servers.open(at, wait);
        try {
            probe.look(link, wait);
        } catch (JedisDataException e) {
            throw Trouble.answered(e);
        } catch (JedisException e) {
            throw Trouble.disconnected(e, false, at.toString());
        } finally {
            servers.giveBack(link);
        }
    }

    @Override
    public Guarantees guarantees() {
        return GUARANTEES;
    }

    @Override
    public String toString() {
        return store;
    }

    private int slot(Keys keys) {
        return slotted ? keys.slot() : 0;
    }

    // ---- Acquire -------------------------------------------------------------------------------------------------

    @Override
    public Attempt acquire(Claim claim, Duration patience) throws InterruptedException {
        String lease = String.valueOf(leaseMillis(claim));
        Keys keys = Keys.of(prefix, claim.name());
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        long end = System.nanoTime() + nanos(patience);
        // Where hints come already, what is released from here on wakes us.
        Subscriber.Topic topic = patience.isZero() || patience.isNegative() ? null : hints.joinIfHeard(keys.channel());
        try {
            letOthersFirst(keys, end);
            while (true) {
                long seen = topic == null ? 0 : topic.version();
                Object answer = tryOnce(claim, keys, lease);
                if (answer instanceof Grant grant) {
                    return Attempt.granted(grant);
                }
                Duration rest = Duration.ofMillis((Long) answer);
                long left = end - System.nanoTime();
                if (left <= 0) {
                    return Attempt.held(PAUSE, rest);
                }
                if (topic == null) {
                    topic = hints.join(keys.channel());
                }
                if (!hints.isHeard(topic)) {
                    Duration most = context.callTimeout().compareTo(Duration.ofNanos(left)) < 0
                            ? context.callTimeout()
                            : Duration.ofNanos(left);
                    if (!hints.awaitHeard(topic, Wait.interruptible(most))) {
                        requireOpen(keys);
                        // The caller's own pauses are better than a sleep until the lease ends.
                        return Attempt.held(PAUSE, rest);
                    }
                    // What was released before the subscription was told to nobody: ask again.
                    continue;
                }
                // A key ends after its last millisecond.
                hints.awaitHint(
                        topic,
                        seen,
                        Wait.interruptible(Duration.ofNanos(left)),
                        rest.plusMillis(1).toNanos());
                requireOpen(keys);
            }
        } finally {
            if (topic != null) {
                hints.leave(topic);
            }
        }
    }

    /**
     * This client hears of its own release before anybody else does, and would get the lock again and again while the others
     * are still on their way. Without patience nobody waits.
     */
    private void letOthersFirst(Keys keys, long end) throws InterruptedException {
        Long until = othersFirst.isEmpty() ? null : othersFirst.remove(keys.channel());
        if (until != null) {
            long left = Math.min(until, end) - System.nanoTime();
            if (left > 0) {
                TimeUnit.NANOSECONDS.sleep(left);
            }
        }
    }

    /** For tests. */
    boolean letsOthersFirst(String name) {
        return othersFirst.containsKey(Keys.of(prefix, name).channel());
    }

    private void noteWhoWasTold(Keys keys, long told) {
        long others = hints.hears(keys.channel()) ? told - 1 : told;
        if (others > 0) {
            long now = System.nanoTime();
            if (othersFirst.size() > 64) {
                othersFirst.values().removeIf(until -> until - now < 0);
            }
            othersFirst.put(keys.channel(), now + HEAD_START);
            if (othersLately.size() > 64) {
                othersLately.values().removeIf(until -> until - now < 0);
            }
            othersLately.put(keys.channel(), now + LATELY);
        } else if (!othersLately.isEmpty()) {
            othersLately.remove(keys.channel());
        }
    }

    /** Whether other clients waited for it lately, as far as this one was told by its own releases. */
    private boolean othersWait(Keys keys) {
        Long until = othersLately.isEmpty() ? null : othersLately.get(keys.channel());
        return until != null && until - System.nanoTime() > 0;
    }

    private void requireOpen(Keys keys) {
        if (servers.isClosed()) {
            throw new LockStoreException(
                    store, "acquire " + keys + ": this client of the store was closed", "open another", false, null);
        }
    }

    /** A grant, or the milliseconds that are left of somebody else's. */
    private Object tryOnce(Claim claim, Keys keys, String lease) throws InterruptedException {
        String tried = "acquire " + keys;
        try {
            return servers.call(
                    Servers.Lane.ACQUIRES, slot(keys), Wait.interruptible(context.callTimeout()), (link, wait) -> {
                        long since = context.nanoTime();
                        Object answer = link.run(
                                wait, Script.ACQUIRE, acquireKeys(keys, claim.owner()), List.of(claim.owner(), lease));
                        if (answer instanceof Long rest) {
                            if (Thread.interrupted()) {
                                throw new InterruptedException();
                            }
                            return rest;
                        }
                        Grant grant =
                                claim.granted(Duration.ofMillis(Long.parseLong(lease)), token(answer, tried), since);
                        if (Thread.interrupted()) {
                            giveBack(link, wait, keys, claim);
                            throw new InterruptedException();
                        }
                        requireReplicas(link, wait, keys, claim, "the lock");
                        return grant;
                    });
        } catch (Trouble e) {
            if (Thread.interrupted()) {
                // A virtual thread's sockets are closed by it. The caller releases.
                InterruptedException interrupted = new InterruptedException();
                interrupted.initCause(e);
                throw interrupted;
            }
            throw failed(tried, e);
        }
    }

    /** Over the connection of the acquire. If that fails it is the caller's: it releases after every exception. */
    private void giveBack(Link link, Wait wait, Keys keys, Claim claim) {
        try {
            Object unused = released(link, wait, keys, claim.owner());
        } catch (JedisException e) {
            LOG.log(Level.DEBUG, "release of an acquire that nobody waits for any more", e);
        }
    }

    private void requireReplicas(Link link, Wait wait, Keys keys, Claim claim, String what) throws Trouble {
        if (replicas == 0) {
            return;
        }
        long acknowledged = 0;
        JedisDataException error = null;
        try {
            acknowledged = waitForReplicas(link, wait);
            if (acknowledged >= replicas) {
                return;
            }
        } catch (JedisDataException e) {
            error = e; // Not of the grant: that has been made.
        }
        boolean undone = false;
        try {
            Object unused = released(link, wait, keys, claim.owner());
            undone = true;
        } catch (JedisException e) {
            LOG.log(Level.DEBUG, "release of a grant with too few replicas", e);
        }
        throw new Trouble(
                acknowledged + " of " + replicas + " replicas acknowledged " + what + " in time, which "
                        + (undone ? "was given back" : "is being given back")
                        + (error == null ? "" : ": " + error.getMessage()),
                error == null
                        ? "see why the replicas lag or are gone, or ask for fewer (replicas)"
                        : "let the user WAIT, or do not ask for replicas",
                !undone,
                error);
    }

    /** Half of the time that is left is for giving back. */
    private long waitForReplicas(Link link, Wait wait) {
        long millis = Math.max(1, TimeUnit.NANOSECONDS.toMillis(wait.left()) / 2);
        Object answer = link.exchange(
                wait, new CommandArguments(Protocol.Command.WAIT).add(replicas).add(millis));
        return (Long) answer;
    }

    private static long token(Object answer, String tried) throws Trouble {
        if (answer instanceof byte[] text) {
            return Long.parseLong(text(text));
        }
        String what = answer instanceof List<?> list && !list.isEmpty() ? text(list.get(0)) : "";
        throw switch (what) {
            case "released" ->
                new Trouble("this owner was released before", "make a new claim for a new attempt", false, null);
            case "format" -> otherFormat(text(((List<?>) answer).get(1)));
            default -> new Trouble("an answer without sense to " + tried, "see what answers there", true, null);
        };
    }

    private static Trouble otherFormat(String value) {
        String shown = Claim.printable(value.length() > 20 ? value.substring(0, 20) + "..." : value);
        return new Trouble(
                "what is stored for this name is not of format 1, the only one that this client knows: " + shown,
                "let all users of this store have the same version of Mortise, or choose another prefix",
                false,
                null);
    }

    private static String text(Object bytes) {
        return bytes instanceof byte[] b ? new String(b, StandardCharsets.UTF_8) : String.valueOf(bytes);
    }

    // ---- Renew ---------------------------------------------------------------------------------------------------

    /** One pipelined exchange a server, in parallel. */
    @Override
    public Renewal renew(Collection<Grant> grants) {
        String tried = "renew " + grants.size() + (grants.size() == 1 ? " lease" : " leases");
        try (Wait wait = Wait.uninterruptible(context.callTimeout())) {
            Map<HostAndPort, List<Asked>> groups = new LinkedHashMap<>();
            Trouble failure = null;
            for (Grant grant : grants) {
                Keys keys = Keys.of(prefix, grant.name());
                int slot = slot(keys);
                try {
                    groups.computeIfAbsent(servers.locate(slot, wait), at -> new ArrayList<>())
                            .add(new Asked(grant, keys, slot));
                } catch (Trouble e) {
                    failure = e;
                }
            }
            Answers answers = new Answers();
            if (groups.size() == 1) {
                renew(groups.values().iterator().next(), wait, answers);
            } else {
                renewInParallel(groups.values(), wait, answers);
            }
            return answers.result(failure, grants.size());
        } catch (Trouble e) {
            throw failed(tried, e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** When most have answered, those that have not by some time later are left unknown: the others must not wait. */
    private void renewInParallel(Collection<List<Asked>> groups, Wait wait, Answers answers)
            throws Trouble, InterruptedException {
        CountDownLatch left = new CountDownLatch(groups.size());
        for (List<Asked> group : groups) {
            servers.aside(() -> {
                try (Wait own = Wait.uninterruptible(Duration.ofNanos(Math.max(1, wait.left())))) {
                    renew(group, own, answers);
                } catch (Trouble e) {
                    answers.failed(e);
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                } finally {
                    left.countDown();
                }
            });
        }
        long most = wait.left() - context.callTimeout().toNanos() / 4;
        while (left.getCount() > 0 && wait.left() > 0 && !servers.isClosed()) {
            if (left.getCount() < groups.size() && most > 0) {
                // At least one server is well, and so are its answers.
                boolean unused = wait.part(context.callTimeout().dividedBy(4)).forResult(left, servers::isClosed);
                return;
            }
            wait.pause(TimeUnit.MILLISECONDS.toNanos(1));
        }
    }

    private record Asked(Grant grant, Keys keys, int slot) {}

    /** What the servers said, in whatever order they said it. For any thread. */
    private static final class Answers {
        private final List<Grant> live = new ArrayList<>();
        private final List<Grant> ended = new ArrayList<>();
        private @Nullable Trouble failure;

        synchronized void live(Grant grant) {
            live.add(grant);
        }

        synchronized void ended(Grant grant) {
            ended.add(grant);
        }

        synchronized void failed(Trouble trouble) {
            failure = trouble;
        }

        /**
         * What is known.
         *
         * @throws Trouble if nothing is known of any
         */
        synchronized Renewal result(@Nullable Trouble other, int asked) throws Trouble {
            if (live.isEmpty() && ended.isEmpty() && asked > 0) {
                Trouble why = failure == null ? other : failure;
                throw why != null ? why : new Trouble("no answer in time", "check that the servers answer", true, null);
            }
            return Renewal.of(live, ended);
        }
    }

    /** These are at one server; or some are elsewhere by now, where it says so. */
    private void renew(List<Asked> group, Wait wait, Answers answers) throws Trouble, InterruptedException {
        Elsewhere elsewhere = new Elsewhere();
        renew(group, null, wait, answers, elsewhere);
        if (elsewhere.isNone()) {
            return;
        }
        // Those that were answered must not wait for long.
        Wait some = wait.part(context.callTimeout().dividedBy(4));
        for (List<Asked> moved : elsewhere.moved.values()) {
            follow(moved, null, some, answers);
        }
        for (Map.Entry<HostAndPort, List<Asked>> asked : elsewhere.asked.entrySet()) {
            follow(asked.getValue(), asked.getKey(), some, answers);
        }
    }

    /** Once; who is sent on again is left unknown, and asked for with the next renewal. */
    private void follow(List<Asked> group, @Nullable HostAndPort first, Wait wait, Answers answers)
            throws InterruptedException {
        try {
            renew(group, first, wait, answers, new Elsewhere());
        } catch (Trouble e) {
            answers.failed(e);
        }
    }

    /** What is, or is on its way, elsewhere. */
    private static final class Elsewhere {
        final Map<HostAndPort, List<Asked>> moved = new LinkedHashMap<>();
        final Map<HostAndPort, List<Asked>> asked = new LinkedHashMap<>();

        boolean isNone() {
            return moved.isEmpty() && asked.isEmpty();
        }

        /** False if the error says nothing of that. */
        boolean note(List<Asked> batch, JedisDataException error) {
            if (!(error instanceof JedisRedirectionException to)) {
                return false;
            }
            (error instanceof JedisAskDataException ? asked : moved)
                    .computeIfAbsent(to.getTargetNode(), at -> new ArrayList<>())
                    .addAll(batch);
            return true;
        }
    }

    private void renew(List<Asked> group, @Nullable HostAndPort first, Wait wait, Answers answers, Elsewhere elsewhere)
            throws Trouble, InterruptedException {
        List<List<Asked>> batches = batches(group);
        servers.call(Servers.Lane.RENEWALS, group.get(0).slot(), first, wait, (link, limit) -> {
            long since = context.nanoTime();
            List<Object> all = renewed(link, limit, batches);
            boolean durable = replicas == 0 || waitForReplicas(link, limit) >= replicas;
            JedisDataException error = null;
            boolean answered = false;
            for (int i = 0; i < batches.size(); i++) {
                if (all.get(i) instanceof List<?> leases) {
                    answered = true;
                    note(batches.get(i), leases, since, durable, answers);
                } else if (all.get(i) instanceof JedisDataException e) {
                    servers.learn(batches.get(i).get(0).slot(), link, e);
                    // A single one goes where it is told by itself.
                    if (!slotted || batches.size() == 1 || !elsewhere.note(batches.get(i), e)) {
                        error = e;
                    }
                }
            }
            if (!answered && error != null && elsewhere.isNone()) {
                throw error;
            }
            return true;
        });
    }

    private static void note(List<Asked> batch, List<?> leases, long since, boolean durable, Answers answers) {
        for (int i = 0; i < batch.size(); i++) {
            Grant grant = batch.get(i).grant();
            long lease = (Long) leases.get(i);
            if (lease == 0) {
                answers.ended(grant);
            } else if (lease > 0 && durable) {
                answers.live(grant.renewed(Duration.ofMillis(lease), since));
            }
        }
    }

    /** All keys of one run must be in one slot; where there are no slots, some dozens share a run. */
    private List<List<Asked>> batches(List<Asked> group) {
        Map<Integer, List<Asked>> bySlot = new LinkedHashMap<>();
        group.forEach(asked ->
                bySlot.computeIfAbsent(asked.slot(), slot -> new ArrayList<>()).add(asked));
        List<List<Asked>> batches = new ArrayList<>();
        for (List<Asked> some : bySlot.values()) {
            for (int from = 0; from < some.size(); from += BATCH) {
                batches.add(some.subList(from, Math.min(some.size(), from + BATCH)));
            }
        }
        return batches;
    }

    /** One exchange; a second one with the text of the script for the runs before which the server did not have it. */
    private static List<Object> renewed(Link link, Wait wait, List<List<Asked>> batches) {
        List<Object> answers = new ArrayList<>(link.exchange(
                wait, batches.stream().map(batch -> renewal(batch, false)).toList()));
        List<Integer> again = new ArrayList<>();
        for (int i = 0; i < answers.size(); i++) {
            if (answers.get(i) instanceof JedisNoScriptException) {
                again.add(i);
            }
        }
        if (!again.isEmpty()) {
            List<Object> more = link.exchange(
                    wait,
                    again.stream()
                            .map(i -> renewal(batches.get(i), i.equals(again.get(0))))
                            .toList());
            for (int i = 0; i < again.size(); i++) {
                answers.set(again.get(i), more.get(i));
            }
        }
        return answers;
    }

    private static CommandArguments renewal(List<Asked> batch, boolean byText) {
        List<String> keys = new ArrayList<>();
        List<String> arguments = new ArrayList<>();
        for (Asked asked : batch) {
            keys.add(asked.keys().lock());
            arguments.add(asked.grant().owner());
            arguments.add(String.valueOf(asked.grant().token()));
        }
        return byText ? Script.RENEW.runByText(keys, arguments) : Script.RENEW.run(keys, arguments);
    }

    // ---- Release, adopt, holder ----------------------------------------------------------------------------------

    @Override
    public boolean release(Claim claim) {
        Keys keys = Keys.of(prefix, claim.name());
        return noted(
                keys,
                uninterrupted("release " + keys, keys, (link, wait) -> released(link, wait, keys, claim.owner())));
    }

    /**
     * Both in one packet and over one connection, so that the acquire comes right behind the release. Not where others wait:
     * it would come before any of them has heard of the release. Nor where a grant needs more than one answer.
     */
    @Override
    public boolean release(Claim claim, Claim next, Consumer<Attempt> passed) {
        Keys keys = Keys.of(prefix, claim.name());
        if (replicas > 0 || othersWait(keys) || next.lease().compareTo(GUARANTEES.longestLease()) > 0) {
            return release(claim);
        }
        String lease = String.valueOf(leaseMillis(next));
        AtomicBoolean once = new AtomicBoolean();
        return noted(keys, uninterrupted("release " + keys, keys, (link, wait) -> {
            if (once.getAndSet(true)) {
                return released(link, wait, keys, claim.owner());
            }
            long since = context.nanoTime();
            List<Object> both = link.exchange(
                    wait,
                    List.of(
                            Script.RELEASE.run(releaseKeys(keys, claim.owner()), releaseWords(keys, claim.owner())),
                            Script.ACQUIRE.run(acquireKeys(keys, next.owner()), List.of(next.owner(), lease))));
            // First what may have been granted: whatever the other answer is, that is not to be lost track of.
            if (both.get(1) instanceof Long rest) {
                passed.accept(Attempt.held(PAUSE, Duration.ofMillis(rest)));
            } else if (both.get(1) instanceof byte[] token) {
                passed.accept(Attempt.granted(
                        next.granted(Duration.ofMillis(Long.parseLong(lease)), Long.parseLong(text(token)), since)));
            } else if (both.get(1) instanceof JedisDataException e
                    && Trouble.answered(e).mayHaveTakenEffect()) {
                Object unused = released(link, wait, keys, next.owner());
            } // Else nothing was granted; he asks himself, and is told why.
            Object answer = both.get(0);
            if (answer instanceof JedisNoScriptException) {
                return released(link, wait, keys, claim.owner());
            }
            if (answer instanceof JedisDataException e) {
                throw e;
            }
            return answer;
        }));
    }

    private boolean noted(Keys keys, Object answer) {
        if (answer instanceof byte[] error) {
            tellOfSilence(text(error));
            return true;
        }
        long ended = (Long) answer;
        noteWhoWasTold(keys, ended - 1);
        return ended > 0;
    }

    /** A number, or text: what the script says. */
    private static Object released(Link link, Wait wait, Keys keys, String owner) {
        Object told = link.run(wait, Script.RELEASE, releaseKeys(keys, owner), releaseWords(keys, owner));
        return told instanceof byte[] ? told : (Long) told;
    }

    private static List<String> releaseKeys(Keys keys, String owner) {
        return List.of(keys.lock(), keys.released(owner));
    }

    private static List<String> releaseWords(Keys keys, String owner) {
        return List.of(owner, keys.channel(), MARK_MILLIS);
    }

    private static List<String> acquireKeys(Keys keys, String owner) {
        return List.of(keys.lock(), keys.fence(), keys.released(owner));
    }

    private void tellOfSilence(String error) {
        if (!toldOfSilence.getAndSet(true)) {
            LOG.log(
                    Level.WARNING,
                    store + ": locks are released, but waiters cannot be told of it (" + error
                            + "); they ask again when the lease would have ended. Let the user publish to "
                            + prefix + ":*");
        }
    }

    @Override
    public Optional<Grant> adopt(Grant held, Claim heir) {
        if (!held.name().equals(heir.name())) {
            throw new IllegalArgumentException("heir must be of the same name: " + heir + ", not " + held.claim());
        }
        long lease = leaseMillis(heir);
        Keys keys = Keys.of(prefix, heir.name());
        String tried = "adopt " + keys;
        return uninterrupted(tried, keys, (link, wait) -> {
            long since = context.nanoTime();
            Object answer = link.run(
                    wait,
                    Script.ADOPT,
                    List.of(keys.lock(), keys.fence(), keys.released(heir.owner())),
                    List.of(held.owner(), String.valueOf(held.token()), heir.owner(), String.valueOf(lease)));
            if (answer instanceof List<?> list
                    && list.size() == 1
                    && text(list.get(0)).equals("none")) {
                return Optional.<Grant>empty();
            }
            Grant grant = heir.granted(Duration.ofMillis(lease), token(answer, tried), since);
            requireReplicas(link, wait, keys, heir, "the hand-over");
            return Optional.of(grant);
        });
    }

    @Override
    public Optional<Holder> holder(String name) {
        Keys keys = Keys.of(prefix, Claim.requireName(name));
        return uninterrupted("look at " + keys, keys, (link, wait) -> {
            List<?> answer = (List<?>) link.run(wait, Script.HOLDER, List.of(keys.lock()), List.of());
            if (answer.size() == 2) {
                throw otherFormat(text(answer.get(1)));
            }
            return answer.isEmpty()
                    ? Optional.<Holder>empty()
                    : Optional.of(Holder.of(
                            text(answer.get(0)),
                            Long.parseLong(text(answer.get(1))),
                            Duration.ofMillis(Math.max(0, (Long) answer.get(2)))));
        });
    }

    /** An interrupt neither shortens nor fails it; the thread finds itself interrupted afterwards. */
    private <T> T uninterrupted(String tried, Keys keys, Servers.Exchange<T> exchange) {
        try (Wait wait = Wait.uninterruptible(context.callTimeout())) {
            return servers.call(Servers.Lane.OTHERS, slot(keys), wait, exchange);
        } catch (Trouble e) {
            throw failed(tried, e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public void close() {
        servers.close();
        hints.close();
    }

    // ---- All -----------------------------------------------------------------------------------------------------

    /** The lease in whole milliseconds, rounded up and raised to the shortest. */
    private static long leaseMillis(Claim claim) {
        if (claim.lease().compareTo(GUARANTEES.longestLease()) > 0) {
            throw new IllegalArgumentException(
                    "lease must be at most " + GUARANTEES.longestLease() + ": " + claim.lease());
        }
        long millis = claim.lease().plusNanos(999_999).toMillis();
        return Math.max(millis, GUARANTEES.shortestLease().toMillis());
    }

    /** At most a hundred years. */
    private static long nanos(Duration length) {
        Duration most = Duration.ofDays(36_500);
        return (length.compareTo(most) < 0 ? length : most).toNanos();
    }

    private LockStoreException failed(String tried, Trouble trouble) {
        return new LockStoreException(
                store,
                tried + ": " + trouble.getMessage(),
                trouble.advice(),
                trouble.mayHaveTakenEffect(),
                trouble.getCause());
    }
}
