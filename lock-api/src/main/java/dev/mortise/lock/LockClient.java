package dev.mortise.lock;

import com.google.errorprone.annotations.CanIgnoreReturnValue;
import com.google.errorprone.annotations.CheckReturnValue;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.Holder;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.Providers;
import dev.mortise.lock.spi.StoreUri;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A connection to a store of locks. One per store and process is enough; for any number of threads.
 *
 * <pre>{@code
 * try (LockClient locks = LockClient.connect("jdbc:sqlite:/var/lib/app/locks.db")) {
 *     locks.lock("invoice-42").run(lease -> ledger.post(invoice, lease.token()));
 * }
 * }</pre>
 *
 * <h2>What it does not do</h2>
 *
 * It does not keep a process from working after its lease has run out: no lock can, since a process may be stopped between
 * any check and the write that follows. It gives every lease a fencing token, and the protected resource rejects the older
 * one. It does not bind locks to threads, and does not implement {@link java.util.concurrent.locks.Lock}, which cannot
 * tell of a loss. It does not order waiters of different clients unless its store is {@linkplain Guarantees#fair() fair}.
 *
 * <h2>What it does</h2>
 *
 * At most one lease of a name is held at a time, through every event that the store's {@link #guarantees()} name. A held
 * lease is renewed at a third of its length. It counts as lost at its deadline, which is counted from before the last
 * confirmed request was sent and shortened by 1 % and 2 ms for clocks that differ. Whatever the store has not confirmed to
 * have ended (an acquire without an answer, a lost lease, a dropped handle) is released again and again until the store
 * acknowledges, or the claim must have ended by itself.
 *
 * <p>Limits: the machine's monotonic clock must run; one that stands still while the machine sleeps makes a holder believe
 * in a lease that has ended, and only the token helps. Two clients in one process do not share the line of waiters.
 */
@CheckReturnValue
public final class LockClient implements AutoCloseable {
    private static final Duration DEFAULT_LEASE = Duration.ofSeconds(30);
    private static final Duration LONGEST_CALL_TIMEOUT = Duration.ofSeconds(3);

    private static final Option<Duration> LEASE = Option.duration(
            "lease", "30s", "How long the store keeps a lock for a holder of which it hears nothing more.");
    private static final Option<Duration> CALL_TIMEOUT = Option.duration(
            "call-timeout", "3s", "The longest that a call to the store may take, beyond the patience of an acquire.");
    private static final Option<String> LABEL =
            Option.text("label", "", "Who this is, for people who ask for the holder; default host and process.");

    /** The options of the client itself, which go beside those of every store. */
    static final List<Option<?>> OPTIONS = List.of(LEASE, CALL_TIMEOUT, LABEL);

    private final LockBackend backend;
    private final Engine engine;
    private final Duration lease;
    private final Duration callTimeout;
    private final @Nullable SystemTime ownTime;

    private LockClient(
            LockBackend backend, Engine engine, Duration lease, Duration callTimeout, @Nullable SystemTime ownTime) {
        this.backend = backend;
        this.engine = engine;
        this.callTimeout = callTimeout;
        this.ownTime = ownTime;
        this.lease = requireLease(lease);
    }

    /**
     * Connects to the store of this URI, found by its scheme among the modules on the class path. Does I/O.
     *
     * @throws IllegalArgumentException if the URI, its scheme or an option is not known or makes no sense
     * @throws LockStoreException if the store cannot be used
     */
    public static LockClient connect(String uri) {
        return connect(uri, Map.of());
    }

    /**
     * The same, with more options than the URI has; for JDBC, with all of them. Every store knows {@code lease},
     * {@code call-timeout} and {@code label} beside its own.
     */
    public static LockClient connect(String uri, Map<String, String> options) {
        return builder(uri, options).build();
    }

    /** A client still to be configured, for the store of this URI. */
    public static Builder builder(String uri, Map<String, String> options) {
        return new Builder(StoreUri.parse(uri, options), null);
    }

    /** A client still to be configured, for a backend that is open. The client closes it. */
    public static Builder builder(LockBackend backend) {
        return new Builder(null, Objects.requireNonNull(backend, "backend"));
    }

    /** What the store promises. */
    public Guarantees guarantees() {
        return engine.guarantees;
    }

    /** The lease of locks that ask for no other. */
    public Duration lease() {
        return lease;
    }

    /**
     * A lock, with the client's lease. Does no I/O.
     *
     * @param name any text that is not empty, has no unpaired surrogates and is at most 512 bytes in UTF-8; told apart by
     *     case
     * @throws IllegalArgumentException if it is none
     */
    public DistributedLock lock(String name) {
        return new DistributedLock(this, engine, Claim.requireName(name), lease, Nanos.FOREVER);
    }

    /**
     * Who holds the lock, for people and logs, never for decisions: it can be out of date when it arrives.
     *
     * @throws LockStoreException if the store did not answer
     */
    public Optional<Holder> holder(String name) {
        Claim.requireName(name);
        engine.requireOpen();
        return backend.holder(name);
    }

    /**
     * Ends waits, which then throw {@link IllegalStateException}, and releases what is held. Waits for the store's
     * acknowledgement at most the call timeout; what is not acknowledged by then ends by itself. Idempotent.
     */
    @Override
    public void close() {
        if (engine.close()) {
            try {
                backend.close();
            } finally {
                engine.closeWorkers();
                if (ownTime != null) {
                    ownTime.close();
                }
            }
        }
    }

    /** A renewal comes at a third of the lease, and one that is not answered must be tried again before the end. */
    private static void requireRetries(Duration lease, Duration callTimeout) {
        if (lease.dividedBy(4).compareTo(callTimeout) < 0) {
            throw new IllegalArgumentException(
                    "lease " + lease + " is shorter than four call timeouts of " + callTimeout
                            + ", so that a renewal could not be tried again; ask for a longer lease, or set the option"
                            + " call-timeout to at most " + lease.dividedBy(4));
        }
    }

    Duration requireLease(Duration asked) {
        Guarantees g = engine.guarantees;
        if (asked.isNegative() || asked.isZero()) {
            throw new IllegalArgumentException("lease must be positive: " + asked);
        }
        if (asked.compareTo(g.longestLease()) > 0) {
            throw new IllegalArgumentException(
                    "lease " + asked + " is longer than " + engine.store + " allows: " + g.longestLease());
        }
        requireRetries(asked, callTimeout);
        Duration lease = asked.compareTo(g.shortestLease()) < 0 ? g.shortestLease() : asked;
        long unit = Nanos.of(g.granularity());
        long units = (Nanos.of(lease) + unit - 1) / unit;
        return lease.compareTo(Duration.ofNanos(Nanos.FOREVER)) >= 0 ? lease : Duration.ofNanos(units * unit);
    }

    @Override
    public String toString() {
        return "locks in " + engine.store;
    }

    /** For tests: what the engine holds on to. */
    String contents() {
        return engine.contents();
    }

    /** For tests: how many wait for the name in this client. */
    int waiting(String name) {
        return engine.waiting(name);
    }

    /** What a client may be told before it connects. Not for several threads. */
    public static final class Builder {
        private final @Nullable StoreUri uri;
        private final @Nullable LockBackend backend;
        private final List<LockListener> listeners = new ArrayList<>();
        private @Nullable Duration lease;
        private @Nullable Duration callTimeout;
        private @Nullable String label;
        private @Nullable TimeSource time;
        private @Nullable Providers providers;

        private Builder(@Nullable StoreUri uri, @Nullable LockBackend backend) {
            this.uri = uri;
            this.backend = backend;
            if (uri != null) {
                lease = option(uri, LEASE);
                callTimeout = option(uri, CALL_TIMEOUT);
                label = option(uri, LABEL);
            }
        }

        /** Those found before, so that several stores are looked for in one place. */
        @CanIgnoreReturnValue
        Builder providers(Providers providers) {
            this.providers = providers;
            return this;
        }

        private static <T> @Nullable T option(StoreUri uri, Option<T> option) {
            return uri.options().containsKey(option.name()) ? uri.get(option) : null;
        }

        /** The lease of locks that ask for no other; 30 s unless told. */
        @CanIgnoreReturnValue
        public Builder lease(Duration lease) {
            this.lease = Objects.requireNonNull(lease, "lease");
            return this;
        }

        /**
         * The longest that a call to the store may take, beyond the patience of an acquire; 3 s or a quarter of the
         * lease, whichever is less, unless told. At most a quarter of any lease.
         */
        @CanIgnoreReturnValue
        public Builder callTimeout(Duration callTimeout) {
            this.callTimeout = Objects.requireNonNull(callTimeout, "callTimeout");
            return this;
        }

        /** Who this is, for people who ask for the holder: printable ASCII; host and process unless told. */
        @CanIgnoreReturnValue
        public Builder label(String label) {
            this.label = Objects.requireNonNull(label, "label");
            return this;
        }

        /** Adds a listener. */
        @CanIgnoreReturnValue
        public Builder listener(LockListener listener) {
            listeners.add(Objects.requireNonNull(listener, "listener"));
            return this;
        }

        /** The clock; {@link VirtualTime} in tests, the machine's unless told. */
        @CanIgnoreReturnValue
        public Builder time(TimeSource time) {
            this.time = Objects.requireNonNull(time, "time");
            return this;
        }

        /** Connects, if this was made from a URI. Throws as {@link LockClient#connect(String)} does. */
        @CheckReturnValue
        public LockClient build() {
            Duration lease = this.lease == null ? DEFAULT_LEASE : this.lease;
            if (lease.isNegative() || lease.isZero()) {
                throw new IllegalArgumentException("lease must be positive: " + lease);
            }
            Duration callTimeout = this.callTimeout;
            if (callTimeout == null) {
                Duration quarter = lease.dividedBy(4);
                callTimeout = quarter.compareTo(LONGEST_CALL_TIMEOUT) < 0 ? quarter : LONGEST_CALL_TIMEOUT;
            } else if (callTimeout.isNegative() || callTimeout.isZero()) {
                throw new IllegalArgumentException("call-timeout must be positive: " + callTimeout);
            }
            requireRetries(lease, callTimeout);
            String label = shownAs(this.label);
            SystemTime ownTime = time == null ? new SystemTime() : null;
            TimeSource time = ownTime == null ? Objects.requireNonNull(this.time) : ownTime;
            LockBackend opened = backend;
            String store;
            if (opened == null) {
                StoreUri parsed = Objects.requireNonNull(uri);
                store = parsed.toString();
                opened = (providers == null ? Providers.find() : providers)
                        .open(parsed, OPTIONS, BackendContext.of(time::nanoTime, callTimeout));
            } else {
                store = opened.toString();
            }
            try {
                Workers workers = time instanceof VirtualTime virtual ? Workers.in(virtual) : Workers.threads();
                Engine engine = new Engine(
                        store, opened.guarantees(), time, Gateway.to(opened), workers, callTimeout, label, listeners);
                return new LockClient(opened, engine, lease, callTimeout, ownTime);
            } catch (RuntimeException e) {
                if (backend == null) {
                    opened.close();
                }
                throw e;
            }
        }

        private static String shownAs(@Nullable String label) {
            if (label == null || label.isEmpty()) {
                String host;
                try {
                    host = Files.readString(Path.of("/proc/sys/kernel/hostname"))
                            .trim();
                } catch (IOException | RuntimeException e) {
                    // Not Linux. A look-up of the own address could take seconds, for a text that only people read.
                    host = System.getenv().getOrDefault("HOSTNAME", "host");
                }
                String whole = host.replaceAll("[^A-Za-z0-9.-]", "-") + ":"
                        + ProcessHandle.current().pid();
                return whole.length() > 96 ? whole.substring(whole.length() - 96) : whole;
            }
            if (label.length() > 96 || !label.chars().allMatch(c -> c > 0x20 && c < 0x7f && c != '~')) {
                throw new IllegalArgumentException(
                        "label must be at most 96 printable ASCII characters, without space and ~");
            }
            return label;
        }
    }
}
