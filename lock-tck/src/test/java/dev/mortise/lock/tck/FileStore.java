package dev.mortise.lock.tck;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Consistency;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.spi.StoreUri;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.EnumSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A store in a folder, a file for each lock, for clients in many processes of one machine; its faults are a file that all of
 * them look at. Right, or wrong in one way.
 */
final class FileStore implements Store, Faults {
    /** What is wrong, and what must say so. */
    enum Wrong {
        RELEASE_WITHOUT_OWNER("stopped in turn", Rule.R1_1),
        SINCE_FROM_THE_ANSWER("slow answers", Rule.R1_1),
        RENEWED_WITHOUT_LOOK("evicted", Rule.R2_3),
        NEVER_FREE_AFTER_A_CRASH("killed while it holds", Rule.R4_3),
        FORGETS_HOLDERS_AT_RESTART("two faults in a row", Rule.R6_2),
        FORGETS_TOKENS_AT_RESTART("two faults in a row", Rule.R6_3),
        HANGS_AFTER_A_RESTART("two faults in a row", Rule.R6_4),
        // Of the process, and of what the locks protect.
        HELD_AFTER_THE_DEADLINE("stopped beyond its lease", Rule.R6_8),
        RESOURCE_WITHOUT_CHECK("stopped beyond its lease", Rule.R5_6);

        final String shownBy;
        final Rule rule;

        /** @param shownBy the fixed schedule that is made for it */
        Wrong(String shownBy, Rule rule) {
            this.shownBy = shownBy;
            this.rule = rule;
        }
    }

    private static final Set<Fault> POSSIBLE = EnumSet.of(Fault.SERVER_STOPPED, Fault.SERVER_KILLED);

    private final Path folder;
    private final @Nullable Wrong wrong;

    FileStore(@Nullable Wrong wrong) throws IOException {
        this.folder = Files.createTempDirectory("lock-tck-store");
        this.wrong = wrong;
    }

    private FileStore(Path folder, @Nullable Wrong wrong) {
        this.folder = folder;
        this.wrong = wrong;
    }

    Class<?> program() {
        return wrong == Wrong.HELD_AFTER_THE_DEADLINE ? Deluded.class : ClientProcess.class;
    }

    /** Wrong: counts on a lease until it is told that it has ended. */
    public static final class Deluded extends ClientProcess {
        Deluded(String[] arguments) {
            super(arguments);
        }

        public static void main(String[] arguments) throws Exception {
            new Deluded(arguments).run();
        }

        @Override
        boolean isHeld(dev.mortise.lock.Lease lease) {
            return true;
        }
    }

    /** Wrong: takes what comes. */
    public static final class Trusting extends FileResource {
        public Trusting(String folder) {
            super(folder);
        }

        @Override
        boolean admits(long token, long largest) {
            return true;
        }
    }

    @Override
    public LockBackend connect() {
        return new Client(BackendContext.of(System::nanoTime, Duration.ofMillis(75)));
    }

    @Override
    public Optional<String> uri() {
        return Optional.of("folder://here" + folder + (wrong == null ? "" : "?wrong=" + wrong));
    }

    @Override
    public Optional<ProtectedResource.Reference> resource() {
        if (wrong == Wrong.RESOURCE_WITHOUT_CHECK) {
            return Optional.of(new ProtectedResource.Reference(Trusting.class, folder.toString()));
        }
        return Optional.empty();
    }

    @Override
    public Optional<Faults> faults() {
        return Optional.of(this);
    }

    @Override
    public void evict(String name) {
        change(name, 0, row -> new Row("", row.token, 0));
    }

    @Override
    public void delayReplies(Duration by) {
        try {
            Files.writeString(folder.resolve("delay"), String.valueOf(by.toMillis()));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void loseReply() {
        throw new UnsupportedOperationException("not for raw scenarios");
    }

    @Override
    public void heal() {}

    @Override
    public Set<Fault> possible() {
        return POSSIBLE;
    }

    @Override
    public AutoCloseable begin(Fault fault) throws IOException {
        Path sign = folder.resolve("fault");
        Files.writeString(sign, fault.name());
        return () -> {
            if (fault == Fault.SERVER_KILLED) {
                forget();
            }
            Files.delete(sign);
        };
    }

    private void forget() throws IOException {
        try (Stream<Path> rows = Files.list(folder)) {
            for (Path row : rows.filter(f -> f.getFileName().toString().startsWith("lock-"))
                    .toList()) {
                String name = new String(
                        HexFormat.of().parseHex(row.getFileName().toString().substring(5)), StandardCharsets.UTF_8);
                if (wrong == Wrong.FORGETS_HOLDERS_AT_RESTART) {
                    change(name, 0, r -> new Row("", r.token, 0));
                } else if (wrong == Wrong.FORGETS_TOKENS_AT_RESTART) {
                    change(name, 0, r -> new Row(r.owner, 0, r.until));
                } else if (wrong == Wrong.HANGS_AFTER_A_RESTART) {
                    change(name, 0, r -> new Row("nobody", r.token, Long.MAX_VALUE));
                }
            }
        }
    }

    @Override
    public void close() throws IOException {
        try (Stream<Path> all = Files.walk(folder)) {
            for (Path each : all.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(each);
            }
        }
    }

    /** @param until by the machine's monotonic clock, which all processes share */
    private record Row(String owner, long token, long until) {
        boolean live(long now) {
            return !owner.isEmpty() && until - now > 0;
        }
    }

    private static final Object MUTEX = new Object();

    /** In one step, for all processes: what was there before. */
    private Row change(String name, long callTimeout, UnaryOperator<Row> how) {
        long deadline = System.nanoTime() + callTimeout;
        if (callTimeout > 0) {
            reach(deadline);
        }
        Row before;
        synchronized (MUTEX) {
            Path path = folder.resolve("lock-" + HexFormat.of().formatHex(name.getBytes(StandardCharsets.UTF_8)));
            try (FileChannel file = FileChannel.open(
                            path, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
                    FileLock alone = file.lock()) {
                byte[] content = new byte[(int) file.size()];
                ByteBuffer buffer = ByteBuffer.wrap(content);
                file.read(buffer, 0);
                String[] words = new String(content, StandardCharsets.UTF_8).split(" ", -1);
                before = words.length < 3
                        ? new Row("", 0, 0)
                        : new Row(words[0], Long.parseLong(words[1]), Long.parseLong(words[2].trim()));
                Row after = how.apply(before);
                // The same length each time: whoever is killed has written it, or has not.
                String line = String.format(Locale.ROOT, "%s %019d %019d", after.owner, after.token, after.until);
                file.write(ByteBuffer.wrap(
                        String.format(Locale.ROOT, "%-200s", line).getBytes(StandardCharsets.UTF_8)));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        if (callTimeout > 0) {
            String delay = sign("delay");
            if (!delay.isEmpty()) {
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(Long.parseLong(delay)));
            }
            reach(deadline);
        }
        return before;
    }

    private String sign(String name) {
        try {
            return Files.readString(folder.resolve(name));
        } catch (IOException e) {
            return ""; // All is well.
        }
    }

    /** On the way there, and back: it waits while the server is stopped, and breaks when it is killed. */
    private void reach(long deadline) {
        try {
            while (true) {
                String fault = sign("fault");
                if (fault.isEmpty()) {
                    return;
                }
                if (fault.equals(Fault.SERVER_KILLED.name()) || System.nanoTime() > deadline) {
                    throw new LockStoreException("folder", "reach it: " + fault, "wait", true, null);
                }
                TimeUnit.MILLISECONDS.sleep(1);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LockStoreException("folder", "interrupted", "ask again", true, e);
        }
    }

    /** Of processes that have the URI. */
    public static final class Provider implements BackendProvider {
        static final Option<String> WRONG = Option.text("wrong", "", "What is wrong with it.");

        public Provider() {}

        @Override
        public Map<String, Guarantees> schemes() {
            return Map.of("folder", GUARANTEES);
        }

        @Override
        public List<Option<?>> options() {
            return List.of(WRONG);
        }

        @Override
        public LockBackend open(StoreUri uri, BackendContext context) {
            String wrong = uri.get(WRONG);
            return new FileStore(Path.of("/" + uri.path()), wrong.isEmpty() ? null : Wrong.valueOf(wrong))
            .new Client(context);
        }
    }

    private static final Guarantees GUARANTEES = Guarantees.builder(Consistency.DATABASE)
            .exclusionSurvives(
                    StoreEvent.RELEASE_AND_EXPIRY,
                    StoreEvent.CLIENT_CRASH,
                    StoreEvent.CONNECTION_LOSS,
                    StoreEvent.STORE_RESTART)
            .tokensSurvive(
                    StoreEvent.RELEASE_AND_EXPIRY,
                    StoreEvent.CLIENT_CRASH,
                    StoreEvent.CONNECTION_LOSS,
                    StoreEvent.STORE_RESTART)
            .leases(Duration.ofMillis(100), Duration.ofDays(1), Duration.ofMillis(1))
            .freedWithin(lease -> lease)
            .outlivesClient(true)
            .build();

    private final class Client implements LockBackend {
        private final BackendContext context;

        Client(BackendContext context) {
            this.context = context;
        }

        @Override
        public Guarantees guarantees() {
            return GUARANTEES;
        }

        private Row change(String name, UnaryOperator<Row> how) {
            return FileStore.this.change(name, context.callTimeout().toNanos(), how);
        }

        private long since(long before) {
            return wrong == Wrong.SINCE_FROM_THE_ANSWER ? context.nanoTime() : before;
        }

        private static long until(Claim claim, long now) {
            return now + claim.lease().toNanos();
        }

        @Override
        public Attempt acquire(Claim claim, Duration patience) {
            long since = context.nanoTime();
            Row[] after = new Row[1];
            Row before = change(claim.name(), row -> {
                long now = System.nanoTime();
                boolean mine = row.owner.equals(claim.owner());
                boolean free = wrong == Wrong.NEVER_FREE_AFTER_A_CRASH ? row.owner.isEmpty() : !row.live(now);
                after[0] = mine && row.live(now)
                        ? new Row(row.owner, row.token, until(claim, now))
                        : free ? new Row(claim.owner(), row.token + 1, until(claim, now)) : row;
                return after[0];
            });
            return after[0].owner.equals(claim.owner())
                    ? Attempt.granted(claim.granted(claim.lease(), after[0].token, since(since)))
                    : Attempt.held(
                            Duration.ofMillis(10),
                            Duration.ofNanos(Math.max(1, Math.min(before.until - since, 60_000_000_000L))));
        }

        @Override
        public Renewal renew(Collection<Grant> grants) {
            List<Grant> live = new ArrayList<>();
            List<Grant> ended = new ArrayList<>();
            for (Grant grant : grants) {
                long since = context.nanoTime();
                Claim claim = grant.claim();
                Row before = change(
                        claim.name(),
                        row -> row.owner.equals(claim.owner()) && row.live(System.nanoTime())
                                ? new Row(row.owner, row.token, until(claim, System.nanoTime()))
                                : row);
                boolean yes = wrong == Wrong.RENEWED_WITHOUT_LOOK
                        || (before.owner.equals(claim.owner()) && before.live(since));
                (yes ? live : ended).add(yes ? grant.renewed(since(since)) : grant);
            }
            return Renewal.of(live, ended);
        }

        @Override
        public boolean release(Claim claim) {
            Row before = change(
                    claim.name(),
                    row -> row.owner.equals(claim.owner()) || wrong == Wrong.RELEASE_WITHOUT_OWNER
                            ? new Row("", row.token, 0)
                            : row);
            return before.owner.equals(claim.owner()) && before.live(System.nanoTime());
        }

        @Override
        public Optional<Grant> adopt(Grant held, Claim heir) {
            long since = context.nanoTime();
            Row[] after = new Row[1];
            change(heir.name(), row -> {
                long now = System.nanoTime();
                boolean again = row.owner.equals(heir.owner());
                boolean first = row.owner.equals(held.owner()) && row.token == held.token();
                after[0] = row.live(now) && (again || first)
                        ? new Row(heir.owner(), again ? row.token : row.token + 1, until(heir, now))
                        : row;
                return after[0];
            });
            return after[0].owner.equals(heir.owner())
                    ? Optional.of(heir.granted(heir.lease(), after[0].token, since))
                    : Optional.empty();
        }

        @Override
        public void close() {}
    }
}
