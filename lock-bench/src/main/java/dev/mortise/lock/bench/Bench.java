package dev.mortise.lock.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * One run: scenario by scenario, the processes of all peers are started and warmed up, and then measured in turn, round by
 * round, so that what else the machine does hits all alike. For one thread, but for {@link #close}.
 */
final class Bench implements AutoCloseable {
    /**
     * What is done.
     *
     * @param jvm more options for the processes that are measured
     */
    record Plan(
            Set<Tier> tiers,
            Set<Scenario> scenarios,
            Set<Peer> peers,
            int rounds,
            Duration warmUp,
            Duration round,
            Duration idle,
            List<String> jvm) {
        Plan {
            tiers = Set.copyOf(tiers);
            scenarios = Set.copyOf(scenarios);
            peers = Set.copyOf(peers);
            jvm = List.copyOf(jvm);
        }
    }

    private final Plan plan;
    private final Consumer<String> progress;
    private final Results results = new Results();
    private final List<AutoCloseable> open = new CopyOnWriteArrayList<>();
    private volatile boolean closed;
    private final Set<String> serverVersions = new LinkedHashSet<>();

    Bench(Plan plan, Consumer<String> progress) {
        this.plan = plan;
        this.progress = progress;
    }

    /** Peers that fail are in the results with their failure. */
    Results run() throws InterruptedException {
        for (Tier tier : Tier.values()) {
            if (plan.tiers.contains(tier)) {
                run(tier);
            }
        }
        return results;
    }

    String serverVersion() {
        return String.join(", ", serverVersions);
    }

    private void run(Tier tier) throws InterruptedException {
        for (Scenario scenario : Scenario.values()) {
            if (plan.scenarios.contains(scenario)) {
                if (scenario == Scenario.IDLE) {
                    runIdle(tier);
                } else {
                    runRounds(tier, scenario);
                }
            }
        }
    }

    private void runRounds(Tier tier, Scenario scenario) {
        List<Crew> crews = new ArrayList<>();
        Servers servers = keep(tier.start());
        try {
            serverVersions.add(servers.version());
            for (Peer peer : peers(tier, scenario)) {
                progress.accept(tier.title + " " + scenario + ": warming up " + peer.title);
                attempt(peer, scenario, () -> {
                    Crew crew = keep(new Crew(peer, scenario, servers, plan.jvm));
                    crews.add(crew);
                    crew.await();
                    crew.ready(peer.name() + "-warm-up");
                    crew.go(plan.warmUp);
                });
            }
            for (int round = 1; round <= plan.rounds; round++) {
                progress.accept(tier.title + " " + scenario + ": round " + round + " of " + plan.rounds);
                String name = "-" + round;
                List<Crew> order = new ArrayList<>(crews);
                Collections.rotate(order, -round);
                for (Crew crew : order) {
                    attempt(crew.peer, scenario, () -> {
                        crew.ready(crew.peer.name() + name);
                        Watch watch = new Watch(servers, List.of(servers), crews);
                        Map<Measure, Double> values = crew.go(plan.round);
                        add(crew, watch.sample(values, scenario));
                    });
                }
            }
        } finally {
            crews.forEach(this::end);
            end(servers);
        }
    }

    /** All at once, each with servers of its own: they do next to nothing. */
    private void runIdle(Tier tier) throws InterruptedException {
        List<Crew> crews = new ArrayList<>();
        List<Servers> servers = new ArrayList<>();
        try {
            for (Peer peer : peers(tier, Scenario.IDLE)) {
                progress.accept(tier.title + " " + Scenario.IDLE + ": starting " + peer.title);
                Servers own = keep(tier.start());
                servers.add(own);
                serverVersions.add(own.version());
                attempt(peer, Scenario.IDLE, () -> {
                    Crew crew = keep(new Crew(peer, Scenario.IDLE, own, plan.jvm));
                    crews.add(crew);
                    crew.await();
                    crew.ready(peer.name());
                });
            }
            progress.accept(tier.title + " " + Scenario.IDLE + ": for " + plan.idle.toMillis() / 1e3 + " s");
            // What came with the acquiring is over.
            TimeUnit.MILLISECONDS.sleep(Math.min(2000, plan.idle.toMillis()));
            List<Thread> threads = new ArrayList<>();
            for (Crew crew : crews) {
                Watch watch = new Watch(crew.servers, servers, crews);
                Thread thread = new Thread(() -> attempt(
                        crew.peer, Scenario.IDLE, () -> add(crew, watch.sample(crew.go(plan.idle), Scenario.IDLE))));
                threads.add(thread);
                thread.start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
        } finally {
            crews.forEach(this::end);
            servers.forEach(this::end);
        }
    }

    private void add(Crew crew, Sample sample) {
        synchronized (results) {
            results.row(crew.scenario, crew.peer).rounds.add(sample);
        }
    }

    private List<Peer> peers(Tier tier, Scenario scenario) {
        List<Peer> peers = new ArrayList<>();
        for (Peer peer : Peer.values()) {
            if (peer.tier() == tier && plan.peers.contains(peer) && peer.scenarios.contains(scenario)) {
                peers.add(peer);
            }
        }
        return peers;
    }

    private interface Step {
        void run() throws IOException;
    }

    private void attempt(Peer peer, Scenario scenario, Step step) {
        Results.Row row;
        synchronized (results) {
            row = results.row(scenario, peer);
        }
        if (closed || row.failure != null) {
            return;
        }
        try {
            step.run();
        } catch (IOException e) {
            row.failure = e.getMessage();
            progress.accept(scenario + ": " + peer.title + ": " + e.getMessage());
        }
    }

    private <T extends AutoCloseable> T keep(T each) {
        open.add(each);
        if (closed) {
            end(each);
            throw new IllegalStateException("closed");
        }
        return each;
    }

    private void end(AutoCloseable each) {
        try {
            each.close();
        } catch (Exception e) {
            progress.accept("could not end " + each + ": " + e);
        }
        open.remove(each);
    }

    boolean isClosed() {
        return closed;
    }

    /** Ends what it started. From any thread. */
    @Override
    public void close() {
        closed = true;
        open.forEach(this::end);
    }

    /** What happens beside the measuring of one peer. */
    private static final class Watch {
        private final Servers servers;
        private final List<Servers> allServers;
        private final List<Crew> crews;
        private final long begin = System.nanoTime();
        private final Duration ours;
        private final long machine;
        private final Servers.Counts before;

        Watch(Servers servers, List<Servers> allServers, List<Crew> crews) {
            this.servers = servers;
            this.allServers = allServers;
            this.crews = crews;
            before = servers.counts();
            machine = machineTicks();
            ours = ours();
        }

        Sample sample(Map<Measure, Double> values, Scenario scenario) {
            Servers.Counts after = servers.counts();
            double seconds = (System.nanoTime() - begin) / 1e9;
            double busy =
                    (machineTicks() - machine) / 100.0 - ours().minus(ours).toNanos() / 1e9;
            values.put(Measure.OTHERS, Math.max(0, busy / seconds));
            Servers.Counts counts = after.since(before);
            boolean idle = scenario == Scenario.IDLE;
            double unit = idle ? seconds : values.getOrDefault(Measure.COUNT, 0.0);
            values.put(idle ? Measure.REQUEST_RATE : Measure.REQUESTS, counts.reads() / unit);
            values.put(idle ? Measure.SCRIPT_RATE : Measure.SCRIPTS, counts.scripts() / unit);
            values.put(Measure.SERVER_CPU, counts.cpuSeconds() * 1e6 / unit);
            if (idle) {
                values.put(Measure.COMMAND_RATE, counts.commands() / unit);
            }
            Map<String, Double> commands = new TreeMap<>();
            counts.calls().forEach((name, count) -> commands.put(name, count / unit));
            return new Sample(values, commands);
        }

        private Duration ours() {
            Duration sum = ProcessHandle.current().info().totalCpuDuration().orElse(Duration.ZERO);
            for (Servers each : allServers) {
                sum = sum.plus(each.cpu());
            }
            for (Crew each : crews) {
                sum = sum.plus(each.cpu());
            }
            return sum;
        }

        /** Hundredths of a second that the processors of this machine were busy; 0 where that cannot be read. */
        private static long machineTicks() {
            try {
                String[] words =
                        Files.readAllLines(Path.of("/proc/stat")).get(0).split(" +", -1);
                // user, nice, system, (idle, iowait,) irq, softirq, steal
                long sum = 0;
                for (int i : new int[] {1, 2, 3, 6, 7, 8}) {
                    sum += Long.parseLong(words[i]);
                }
                return sum;
            } catch (IOException e) {
                return 0;
            }
        }
    }
}
