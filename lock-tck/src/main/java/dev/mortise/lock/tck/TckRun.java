package dev.mortise.lock.tck;

import dev.mortise.lock.LockStoreException;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The kit on a store that runs already and that others may use meanwhile, without a test framework. Only what clients do is
 * done to it, under names that begin with {@link #prefix}; no fault is caused and nothing is evicted, and a rule that needs
 * that is not tested. At the end, whatever it is, all that was acquired is released.
 *
 * <p>Set up and run by one thread; interrupt it to end the run early.
 */
public final class TckRun {
    private static final Pattern PREFIX = Pattern.compile("[A-Za-z0-9._~-]{1,24}");

    /** Fewer scenarios at a time than on a store of the kit's own: it may have other things to do. */
    private static final int WORKERS = 3;

    private final String uri;
    private final Map<String, String> options;
    private String prefix = "tck-" + UUID.randomUUID().toString().substring(0, 8) + "-";
    private long seed = 1;
    private int scenarios = 120;
    private boolean processes = true;
    private Duration length = Duration.ZERO;
    private @Nullable Path folder;
    private Consumer<String> progress = line -> {};

    private TckRun(String uri, Map<String, String> options) {
        this.uri = Objects.requireNonNull(uri, "uri");
        this.options = Map.copyOf(options);
    }

    /**
     * A run on the store of this URI, which is not asked yet.
     *
     * @param options of its backend, and {@code call-timeout}
     */
    public static TckRun of(String uri, Map<String, String> options) {
        return new TckRun(uri, options);
    }

    /** What all names begin with: 1 to 24 of {@code A-Z a-z 0-9 . _ ~ -}, and nobody else's. Default: a random one. */
    public TckRun prefix(String prefix) {
        if (!PREFIX.matcher(prefix).matches()) {
            throw new IllegalArgumentException("prefix must be 1 to 24 of A-Z a-z 0-9 . _ ~ -");
        }
        this.prefix = prefix;
        return this;
    }

    /** The first seed of what is generated; the same seed generates the same. Default 1. */
    public TckRun seed(long seed) {
        this.seed = seed;
        return this;
    }

    /** How many scenarios are generated, beside the fixed ones. Default 120. */
    public TckRun scenarios(int scenarios) {
        if (scenarios < 0) {
            throw new IllegalArgumentException("scenarios must not be negative: " + scenarios);
        }
        this.scenarios = scenarios;
        return this;
    }

    /** Whether clients in processes of their own are started on this machine, and some killed. Default: yes. */
    public TckRun processes(boolean processes) {
        this.processes = processes;
        return this;
    }

    /** How long new scenarios are generated after the others. Default: not at all. */
    public TckRun length(Duration length) {
        if (length.isNegative()) {
            throw new IllegalArgumentException("length must not be negative: " + length);
        }
        this.length = length;
        return this;
    }

    /** Where {@code report.html} and {@code report.json} are written; the folder is made. Default: nowhere. */
    public TckRun report(Path folder) {
        this.folder = folder;
        return this;
    }

    /** Told a line for each phase that begins and each rule that was judged, by the thread that runs. */
    public TckRun progress(Consumer<String> progress) {
        this.progress = progress;
        return this;
    }

    /**
     * Runs it, which takes from half a minute to a few minutes.
     *
     * @throws IllegalArgumentException if there is no such store or option
     * @throws LockStoreException if the store cannot be used, or did not acknowledge the releases at the end
     * @throws InterruptedException if the thread was interrupted; everything was released all the same
     * @throws IOException if the report cannot be written
     */
    public Result run() throws InterruptedException, IOException {
        Instant started = Instant.now();
        long began = System.nanoTime();
        LiveStore store = new LiveStore(uri, options, prefix);
        Kit kit = new Kit(store, Clock.MACHINE, Delays.DEFAULT, seed, scenarios);
        kit.alone = false;
        kit.atATime = WORKERS;
        kit.prefix = prefix;
        kit.withProcesses = processes;
        kit.longer = length;
        List<Rule> rules = Stream.of(Rule.values())
                .filter(rule -> rule.scope != Rule.Scope.CLIENT)
                .toList();
        kit.progress = line -> progress.accept(kit.results().size() + "/" + rules.size() + " " + line);
        try (kit) {
            kit.guarantees(); // A store that does not answer is told at once.
            for (Rule rule : rules) {
                kit.judge(rule);
            }
            store.awaitFree(kit.processNames(), kit.delays.shortLease(kit.guarantees(), 1));
        } catch (InterruptedException | RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IllegalStateException("the run was ended by " + e, e);
        }
        Path to = folder;
        if (to != null) {
            Duration took = Duration.ofNanos(System.nanoTime() - began);
            new Report(kit, "mortise tck " + store, "mortise tck " + store + " {}", started, took).write(to, "report");
        }
        return new Result(kit);
    }

    /** What a run found. Immutable. */
    public static final class Result {
        private final List<String> held = new ArrayList<>();
        private final Map<String, String> broken = new LinkedHashMap<>();
        private final Map<String, String> notTested = new LinkedHashMap<>();

        private Result(Kit kit) {
            for (Kit.Result each : kit.results().values()) {
                String number = each.rule().number();
                switch (each.status()) {
                    case PASSED -> held.add(number);
                    case FAILED -> broken.put(number, each.message());
                    case SKIPPED -> notTested.put(number, each.message());
                }
            }
        }

        /** The numbers of the rules that were tested and hold. */
        public List<String> held() {
            return Collections.unmodifiableList(held);
        }

        /** What was seen, by the number of the rule that it breaks; several lines each. */
        public Map<String, String> broken() {
            return Collections.unmodifiableMap(broken);
        }

        /** The reason, by the number of the rule. */
        public Map<String, String> notTested() {
            return Collections.unmodifiableMap(notTested);
        }
    }
}
