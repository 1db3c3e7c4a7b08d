package dev.mortise.lock.tck;

import dev.mortise.lock.Lease;
import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.tck.Event.Op;
import dev.mortise.lock.tck.Event.Outcome;
import dev.mortise.lock.tck.History.Finding;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * One fault, begun and ended once, and claims in every state around it: held through it, renewed, released, handed over and
 * acquired while it lasts, left to themselves, waited for, and granted in a stream at the moment at which it begins. Clients
 * that were there before, that come while it lasts, and that come after it. All in real time and with threads, because a
 * call may hang; what is safe is judged by what was recorded, and limits are those of what never happens at all.
 */
final class Ordeal {
    /** While one of these lasts the store gives no answer to anybody. */
    private static final Set<Fault> SILENT =
            EnumSet.of(Fault.NETWORK_GONE, Fault.REPLIES_LOST, Fault.SERVER_STOPPED, Fault.SERVER_KILLED);

    /** Claims granted one after the other while the fault begins. More takes longer to look at. */
    private static final int STREAM = 40;

    /** The library's. */
    private static final Logger LOG = Logger.getLogger("dev.mortise.lock");

    private final Store store;
    private final Guarantees guarantees;
    private final Delays delays;
    private final @Nullable Fault fault;
    private final String prefix;
    private final Recorder recorder = new Recorder();
    private final Map<String, Resource> resources = new HashMap<>();
    private final ConcurrentLinkedQueue<Try> tries = new ConcurrentLinkedQueue<>();
    private final Set<Recorder.Client> silent = new HashSet<>();
    private final List<LockBackend> open = new ArrayList<>();
    private final List<Thread> threads = new ArrayList<>();
    private final Duration shortLease;
    private final Duration longLease;
    private volatile boolean stopLoad;
    private volatile boolean stopStream;
    private long begun;
    private long closing;
    private volatile long over;

    /** An attempt by one of the clients. */
    private static final class Try {
        final Recorder.Client client;
        final Claim claim;
        volatile @Nullable Grant grant;
        volatile boolean unanswered;
        volatile boolean acknowledged;
        volatile long released;
        volatile boolean leftToItself;

        Try(Recorder.Client client, Claim claim) {
            this.client = client;
            this.claim = claim;
        }
    }

    /** What a client's thread does. */
    private interface Work {
        void run() throws Exception;
    }

    /** @param fault null for the crash of a client, which needs no help of the store's */
    Ordeal(Store store, Guarantees guarantees, Delays delays, @Nullable Fault fault, String prefix) {
        this.store = store;
        this.guarantees = guarantees;
        this.delays = delays;
        this.fault = fault;
        this.prefix = prefix;
        this.shortLease = delays.shortLease(guarantees, 1);
        this.longLease = delays.longLease(guarantees);
    }

    /** What may still be carried out so long after the end of a fault was on its way. */
    static Duration grace(Delays delays) {
        return delays.longest().dividedBy(2);
    }

    /** What happened, and what was seen broken by more than the recorded calls. */
    History play() throws Exception {
        Recorder.Client[] before = {connectWhenWell(0), connectWhenWell(1), connectWhenWell(2)};
        Level level = LOG.getLevel();
        LOG.setLevel(Level.OFF); // That nobody answers is what this is about.
        try {
            new Played(before, connectWhenWell(3), connectWhenWell(4)).play();
        } finally {
            LOG.setLevel(level);
            stopLoad = true;
            stopStream = true;
            for (Thread thread : threads) {
                thread.interrupt();
            }
            synchronized (open) {
                open.forEach(LockBackend::close);
            }
        }
        return recorder.history;
    }

    private Recorder.Client connect(int number) {
        LockBackend client = store.connect(delays.shortLease().multipliedBy(4));
        synchronized (open) {
            open.add(client);
        }
        return recorder.of(client, number);
    }

    /** With the clients that were there before. */
    private final class Played {
        private final Recorder.Client one;
        private final Recorder.Client two;
        private final Recorder.Client three;
        private final Recorder.Client engines;
        private final Recorder.Client waits;
        private final List<Thread> during = new ArrayList<>();
        private volatile Recorder.@Nullable Client comer;
        private @Nullable Thread comes;
        private boolean late;

        Played(Recorder.Client[] before, Recorder.Client engines, Recorder.Client waits) {
            one = before[0];
            two = before[1];
            three = before[2];
            this.engines = engines;
            this.waits = waits;
        }

        void play() throws Exception {
            Try held = acquire(one, "a", longLease);
            Try renewed = acquire(one, "b", longLease);
            Try released = acquire(two, "c", longLease);
            Try handedOver = acquire(two, "d", longLease);
            leave(one, "g");
            Try waitedFor = acquire(one, "w", longLease);
            write(held);
            for (int i = 0; i < 3; i++) {
                release(acquire(i == 1 ? two : one, "t", shortLease));
            }
            Thread waiter = start(() -> waitFor("w", waits));
            Holder holder = new Holder(engines);
            Thread contender = start(() -> contend("h", two));
            List<Thread> load = List.of(start(() -> load(two)), start(() -> load(three)));
            CountDownLatch streams = new CountDownLatch(3);
            Thread stream = start(() -> stream(one, streams));
            await(streams);

            long from = System.nanoTime();
            AutoCloseable end = begin();
            begun = System.nanoTime();
            try {
                stopStream = true;
                during(released, renewed, handedOver);
                if (isSilence()) {
                    holder.untilItsEnd();
                }
                ended(during, "the fault lasts");
            } finally {
                closing = System.nanoTime();
                close(end);
                over = System.nanoTime();
                recorder.history.add(Event.of(-1, -1, name(fault), Op.FAULT, Outcome.DONE, from, over));
            }
            ended(List.of(stream), "the fault was over");
            lies();
            tooLate();

            Recorder.Client after = later();
            if (after == null) {
                return;
            }
            stillHeld(after);
            renew(one, renewed);
            renew(one, held);
            access(held, Op.WRITE);
            access(renewed, Op.WRITE);
            stopLoad = true;
            ended(load, "the fault was over");
            ended(List.of(contender), "the fault was over");
            untilAcknowledged(waitedFor);
            waited(waiter);
            holder.end();
            cleanUp();
            hadAgain(after);
        }

        /** Calls of all kinds at a time, each on a thread of its own: it may hang. */
        private void during(Try released, Try renewed, Try handedOver) {
            during.add(start(() -> renew(one, renewed)));
            during.add(start(() -> release(released)));
            if (guarantees.outlivesClient()) {
                during.add(start(() -> adopt(one, handedOver)));
            }
            Thread first = start(() -> {
                Try made = acquire(three, "e", longLease);
                write(made);
            });
            during.add(first);
            during.add(start(() -> {
                if (acquire(two, "a", longLease).unanswered) {
                    return;
                }
                acquire(two, "b", longLease);
                acquire(two, "f", shortLease);
            }));
            // What may be under way still when it is undone, and arrive after that; by a client that is not busy, and
            // has
            // whatever it keeps in stock for claims of this length.
            during.add(start(() -> release(leave(one, "x"))));
            during.add(start(() -> leave(three, "y")));
            // A client that comes now. How long it takes to connect is the Store's business.
            comes = start(() -> {
                Recorder.Client client = connectIfItCan();
                synchronized (this) {
                    if (client == null || late) {
                        return;
                    }
                    comer = client;
                }
                first.join();
                Try second = acquire(client, "e", longLease);
                write(second);
                if (!second.unanswered && !acquire(client, "a", longLease).unanswered) {
                    acquire(client, "f", shortLease);
                }
            });
        }

        /** One that came during a fault has done by now what it came for, or does nothing any more. */
        private void tooLate() throws InterruptedException {
            Thread coming = comes;
            if (coming == null) {
                return;
            }
            coming.join(delays.longest().toMillis());
            synchronized (this) {
                late = true;
            }
            if (comer != null) {
                ended(List.of(coming), "the fault was over");
            }
        }

        /** Whether what was granted before is still known: a client that has never held anything asks. */
        private void stillHeld(Recorder.Client after) throws Exception {
            Set<String> names = new LinkedHashSet<>(List.of("a", "b", "c", "d", "e"));
            for (Try each : tries) {
                String name = each.claim.name().substring(prefix.length());
                if (name.startsWith("s")) {
                    names.add(name);
                }
            }
            for (String name : names) {
                write(acquire(after, name, longLease));
            }
            // Late writes of those who still count on it.
            for (Try each : tries) {
                if (each.client != after && names.contains(each.claim.name().substring(prefix.length()))) {
                    access(each, Op.WRITE);
                }
            }
        }

        /**
         * Where a claim may be gone without a word, as by a clock that steps, a waiter may sleep for the rest that it was told.
         */
        private void waited(Thread waiter) throws InterruptedException {
            boolean promised = fault == null || guarantees.exclusionSurvives().contains(fault.event());
            Duration most = promised
                    ? guarantees.freedWithin(shortLease).plus(grace(delays)).plus(delays.longest())
                    : shortLease;
            waiter.join(most.toMillis());
            if (waiter.isAlive() && promised) {
                broken(
                        Rule.R6_4,
                        "w",
                        "a client that has waited since before the fault got nothing for " + most.toMillis()
                                + " ms, although the lock was released");
            }
            waiter.interrupt();
            waiter.join(delays.longest().toMillis());
        }

        /** Everything is given back, and each client answers. */
        private void cleanUp() throws InterruptedException {
            for (Try each : tries) {
                boolean past = each.acknowledged
                        && (each.released > over || each.claim.lease().equals(shortLease));
                if (!each.leftToItself && !past && each.client != engines) {
                    untilAcknowledged(each);
                }
            }
        }

        private void hadAgain(Recorder.Client after) throws Exception {
            List<String> names = new ArrayList<>(List.of("a", "b", "c", "d", "e", "f", "h", "l", "t", "w", "x", "s0"));
            if (!stepsForGood()) {
                names.addAll(List.of("g", "y", "k"));
            }
            Recorder.Client came = comer;
            for (String name : names) {
                boolean all = name.equals("a") || name.equals("t");
                for (Recorder.Client client : all ? List.of(after, one, came == null ? two : came) : List.of(after)) {
                    Try made = untilGranted(client, name);
                    if (made.grant == null) {
                        return; // One tells enough, and takes long.
                    }
                    release(made);
                }
            }
        }
    }

    /**
     * What a wall clock has granted while it was ahead can last as long as it was: exclusion that survives a step says that
     * nobody else gets in, and not how soon somebody does.
     */
    private boolean stepsForGood() {
        return fault != null && fault.event() == StoreEvent.STORE_CLOCK_STEP;
    }

    /** As in scripts and histories. */
    static String name(@Nullable Fault fault) {
        return fault == null
                ? "client-closed"
                : fault.name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    private boolean isSilence() {
        return fault != null && SILENT.contains(fault);
    }

    // --------------------------------------------------------------------------------------------------- the fault

    private AutoCloseable begin() throws Exception {
        if (fault != null) {
            try {
                return store.faults().orElseThrow().begin(fault);
            } catch (Exception e) {
                throw new IllegalStateException("Faults.begin(" + fault + ") threw", e);
            }
        }
        Recorder.Client crashing = connectWhenWell(5);
        Try held = leave(crashing, "k");
        start(() -> {
            Try waits = new Try(crashing, claim("a", shortLease));
            waits.leftToItself = true;
            acquire(waits, delays.longest());
        });
        TimeUnit.NANOSECONDS.sleep(shortLease.toNanos() / 4);
        long now = System.nanoTime();
        recorder.history.add(Event.of(
                crashing.number, recorder.number(held.claim), held.claim.name(), Op.LOST, Outcome.DONE, now, now));
        crashing.close();
        return () -> {};
    }

    private void close(AutoCloseable end) {
        try {
            end.close();
        } catch (Exception e) {
            throw new IllegalStateException("the end of Faults.begin(" + fault + ") threw", e);
        }
    }

    /** Answers that came while no answer could come. */
    private void lies() {
        if (!isSilence()) {
            return;
        }
        for (Event e : recorder.history.events()) {
            boolean within = e.client() >= 0 && e.invoked() >= begun && e.returned() <= closing;
            String asked = e.name().substring(Math.min(prefix.length(), e.name().length()));
            boolean fresh = asked.equals("x") || asked.equals("y");
            boolean answered =
                    e.outcome() == Outcome.DONE || (e.outcome() == Outcome.REFUSED && e.op() == Op.ACQUIRE && fresh);
            if (within && answered && e.op() != Op.READ && e.op() != Op.WRITE && e.op() != Op.LOST) {
                broken(
                        e.op() == Op.RENEW ? Rule.R6_8 : Rule.R6_5,
                        asked,
                        e.op() + " of " + asked + " was answered with " + (e.outcome() == Outcome.DONE ? "yes" : "no")
                                + " in the middle of " + fault + ", in which no answer of the store reaches anybody"
                                + " (unless the Store of this test lets it through: then that is wrong)");
            }
        }
    }

    private void broken(Rule rule, String what) {
        recorder.history.broken(new Finding(rule, what));
    }

    private void broken(Rule rule, String name, String what) {
        recorder.history.broken(new Finding(rule, what, prefix + name));
    }

    // --------------------------------------------------------------------------------------------------- the calls

    private Claim claim(String name, Duration lease) {
        return Claim.of(prefix + name, "tck~" + UUID.randomUUID(), lease);
    }

    private Try acquire(Recorder.Client client, String name, Duration lease) throws InterruptedException {
        return acquire(client, name, lease, Duration.ZERO);
    }

    private Try acquire(Recorder.Client client, String name, Duration lease, Duration patience)
            throws InterruptedException {
        return acquire(new Try(client, claim(name, lease)), patience);
    }

    /** Nobody ever renews or releases it. */
    private Try leave(Recorder.Client client, String name) throws InterruptedException {
        Try made = new Try(client, claim(name, shortLease));
        made.leftToItself = true;
        return acquire(made, Duration.ZERO);
    }

    private Try acquire(Try made, Duration patience) throws InterruptedException {
        tries.add(made);
        try {
            Attempt attempt = made.client.acquire(made.claim, patience);
            made.grant = attempt.grant().orElse(null);
            made.acknowledged = attempt.grant().isEmpty();
            made.released = System.nanoTime();
        } catch (RuntimeException e) {
            made.unanswered = true;
        } catch (InterruptedException e) {
            made.unanswered = true;
            throw e;
        }
        return made;
    }

    private void renew(Recorder.Client client, Try of) {
        Grant grant = of.grant;
        if (grant == null) {
            return;
        }
        try {
            Renewal renewal = client.renew(List.of(grant));
            if (!renewal.live().isEmpty()) {
                of.grant = renewal.live().get(0);
            }
        } catch (RuntimeException e) {
            // It is in the history.
        }
    }

    private boolean release(Try of) {
        try {
            long asked = System.nanoTime();
            of.client.release(of.claim);
            of.released = asked;
            of.acknowledged = true;
            return true;
        } catch (RuntimeException e) {
            return false;
        }
    }

    private void adopt(Recorder.Client client, Try former) {
        Grant held = former.grant;
        if (held == null) {
            return;
        }
        Try heir = new Try(client, claim(former.claim.name().substring(prefix.length()), longLease));
        tries.add(heir);
        try {
            heir.grant = client.adopt(held, heir.claim).orElse(null);
        } catch (RuntimeException e) {
            heir.unanswered = true;
        }
    }

    private void write(Try of) {
        access(of, Op.READ);
        access(of, Op.WRITE);
    }

    /** The resource is written to under whatever was granted once, also when that is over: that is what tokens are for. */
    private void access(Try of, Op op) {
        Grant grant = of.grant;
        if (grant == null) {
            return;
        }
        synchronized (resources) {
            Resource resource = resources.computeIfAbsent(of.claim.name(), n -> new Resource());
            long now = System.nanoTime();
            Event asked = Event.of(
                            of.client.number, recorder.number(of.claim), of.claim.name(), op, Outcome.REFUSED, now, now)
                    .granted(grant.token(), 0, 0);
            Event event = op == Op.READ ? resource.read(asked) : resource.write(asked);
            if (event != null) {
                recorder.history.add(event);
            }
        }
    }

    private void untilAcknowledged(Try of) throws InterruptedException {
        if (silent.contains(of.client)) {
            return; // That has been told.
        }
        long until = System.nanoTime() + delays.longest().toNanos();
        while (!release(of)) {
            if (System.nanoTime() > until) {
                broken(
                        Rule.R6_4,
                        "client " + of.client.number + ", which was there before, had no answer to a release within "
                                + delays.longest() + " after the fault");
                silent.add(of.client);
                return;
            }
            TimeUnit.MILLISECONDS.sleep(20);
        }
    }

    private Try untilGranted(Recorder.Client client, String name) throws InterruptedException {
        long until = over
                + guarantees.freedWithin(shortLease).toNanos()
                + grace(delays).toNanos()
                + delays.longest().toNanos();
        for (long pause = 5; ; pause = Math.min(100, 2 * pause)) {
            Try made = acquire(client, name, shortLease);
            if (made.grant != null) {
                return made;
            }
            if (made.unanswered) {
                release(made);
            }
            if (System.nanoTime() - until > 0) {
                boolean late = fault == Fault.REQUESTS_LATE && name.equals("x");
                broken(
                        late ? Rule.R7_10 : Rule.R6_4,
                        name,
                        "client " + client.number + " did not get " + name + " within "
                                + Duration.ofNanos(System.nanoTime() - over).toMillis() + " ms after the fault: "
                                + (made.unanswered ? "no answer" : "refused, though nobody holds it any more"));
                return made;
            }
            TimeUnit.MILLISECONDS.sleep(pause);
        }
    }

    // -------------------------------------------------------------------------------------- what goes on all the time

    /** Two clients that take one lock in turn, and do with the resource what it is for. */
    private void load(Recorder.Client client) throws InterruptedException {
        for (int i = 0; !stopLoad; i++) {
            Try made = acquire(client, "l", shortLease);
            if (made.grant != null) {
                access(made, Op.READ);
                TimeUnit.MILLISECONDS.sleep(1 + i % 3);
                if (i % 5 == 4) {
                    renew(client, made);
                }
                access(made, Op.WRITE);
            }
            if ((made.grant != null || made.unanswered) && !release(made)) {
                release(made);
            }
            TimeUnit.MILLISECONDS.sleep(4 + i % 5);
        }
    }

    /** Claims that are granted right before the fault, and as long as it lets them. */
    private void stream(Recorder.Client client, CountDownLatch begun) throws InterruptedException {
        for (int i = 0; i < STREAM && !stopStream; i++) {
            access(acquire(client, "s" + i, longLease), Op.READ);
            begun.countDown();
            TimeUnit.MILLISECONDS.sleep(8);
        }
    }

    /** Waits as a client does: again and again, with a new owner, until it is granted. */
    private void waitFor(String name, Recorder.Client client) throws InterruptedException {
        while (true) {
            Try made = acquire(client, name, shortLease, delays.longest().multipliedBy(2));
            if (made.grant != null || made.unanswered) {
                release(made);
            }
            if (made.grant != null) {
                return;
            }
            TimeUnit.MILLISECONDS.sleep(20);
        }
    }

    /** Somebody who wants what a holder with an engine has. */
    private void contend(String name, Recorder.Client client) throws InterruptedException {
        while (!stopLoad) {
            Try made = acquire(client, name, shortLease);
            if (made.grant != null || made.unanswered) {
                release(made);
            }
            TimeUnit.MILLISECONDS.sleep(20);
        }
    }

    /** A user of the library, who holds a lock and looks all the time whether he still does. */
    private final class Holder {
        private final Recorder.Client client;
        private final LockClient locks;
        private final Lease lease;
        private final CountDownLatch told = new CountDownLatch(1);
        private final Thread looks;
        private volatile boolean done;

        Holder(Recorder.Client client) throws InterruptedException {
            this.client = client;
            Duration length = delays.shortLease(guarantees, 4);
            locks = LockClient.builder(client)
                    .lease(length)
                    .callTimeout(length.dividedBy(4))
                    .build();
            lease = acquire();
            lease.onLoss(loss -> told.countDown());
            looks = start(this::look);
        }

        /** On a busy machine a call may have no answer, also of a store that is well. */
        private Lease acquire() throws InterruptedException {
            long until = System.nanoTime() + delays.longest().toNanos();
            while (true) {
                try {
                    return locks.lock(prefix + "h")
                            .tryAcquire(delays.longest())
                            .orElseThrow(() -> new IllegalStateException(
                                    "nobody holds the lock, and it was not granted: see rule 1.2"));
                } catch (LockStoreException e) {
                    if (System.nanoTime() - until > 0) {
                        throw e;
                    }
                }
            }
        }

        private void look() throws InterruptedException {
            while (!done) {
                long now = System.nanoTime();
                boolean held = lease.isHeld();
                // Read last: an answer that came meanwhile counts.
                long deadline = client.deadline();
                if (held && now > deadline) {
                    broken(
                            Rule.R6_8,
                            "h",
                            "the holder counted on its lease " + (now - deadline) / 1_000_000
                                    + " ms after the deadline that the store's answers gave it");
                    return;
                }
                if (!held) {
                    return;
                }
                TimeUnit.MILLISECONDS.sleep(2);
            }
        }

        /** As long as it takes for the lease to be over, if nobody answers. */
        void untilItsEnd() throws InterruptedException {
            long until = System.nanoTime() + delays.longest().toNanos();
            while (lease.isHeld() && System.nanoTime() - until < 0) {
                TimeUnit.MILLISECONDS.sleep(5);
            }
            if (lease.isHeld()) {
                broken(
                        Rule.R6_8,
                        "h",
                        "the holder still counts on its lease of " + delays.shortLease(guarantees, 4) + " after "
                                + delays.longest() + " of " + fault
                                + ", in which no answer of the store reaches anybody");
            }
        }

        void end() throws InterruptedException {
            boolean held = lease.isHeld();
            done = true;
            looks.join();
            if (!held && !told.await(delays.longest().toNanos(), TimeUnit.NANOSECONDS)) {
                broken(Rule.R6_8, "the holder's lease was over, and onLoss was not called within " + delays.longest());
            }
            try {
                lease.release();
            } catch (LockStoreException e) {
                // It goes on in the background, and whether the lock is had again is asked of others.
            }
            locks.close();
        }
    }

    // --------------------------------------------------------------------------------------------------- threads

    private Thread start(Work work) {
        Thread thread = new Thread(
                () -> {
                    try {
                        work.run();
                    } catch (InterruptedException e) {
                        // It is told to end.
                    } catch (Exception e) {
                        broken(Rule.R6_5, "a call threw " + e);
                    }
                },
                "lock-tck-ordeal");
        thread.setDaemon(true);
        thread.start();
        synchronized (threads) {
            threads.add(thread);
        }
        return thread;
    }

    /** Waits for these; one that is in a call which should have ended long ago is told of, once, and left behind. */
    private void ended(List<Thread> some, String when) throws InterruptedException {
        for (Thread thread : some) {
            while (thread.isAlive()) {
                thread.join(20);
                long now = System.nanoTime();
                for (Recorder.Running call : recorder.running()) {
                    if (thread.isAlive() && call.over(now).compareTo(delays.longest()) > 0) {
                        broken(
                                Rule.R6_5,
                                call.what() + " with a patience of " + call.patience() + " had not come back after "
                                        + Duration.ofNanos(now - call.since()).toMillis() + " ms, while " + when);
                        thread.interrupt();
                        thread.join(delays.shortLease().toMillis());
                        return;
                    }
                }
            }
        }
    }

    private static void await(CountDownLatch latch) throws InterruptedException {
        if (!latch.await(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("a store that is well did not answer within 30 s");
        }
    }

    private Recorder.@Nullable Client connectIfItCan() {
        try {
            return connect(6);
        } catch (RuntimeException e) {
            return null; // Nobody is there to connect to.
        }
    }

    /** A client of a store that is well, which a busy machine may keep from answering at once. */
    private Recorder.Client connectWhenWell(int number) throws InterruptedException {
        long until = System.nanoTime() + delays.longest().toNanos();
        while (true) {
            try {
                return connect(number);
            } catch (RuntimeException e) {
                if (System.nanoTime() - until > 0) {
                    throw e;
                }
                TimeUnit.MILLISECONDS.sleep(50);
            }
        }
    }

    private Recorder.@Nullable Client later() throws InterruptedException {
        try {
            return connectWhenWell(7);
        } catch (RuntimeException e) {
            broken(Rule.R6_4, "no new client can be made within " + delays.longest() + " after the fault: " + e);
            return null;
        }
    }
}
