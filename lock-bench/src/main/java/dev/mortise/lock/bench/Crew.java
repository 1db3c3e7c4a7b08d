package dev.mortise.lock.bench;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/** The processes in which one peer is measured in one scenario. Not for several threads, but for {@link #close}. */
final class Crew implements AutoCloseable {
    /** The same for all: a small heap, and a collector without threads that work beside the measured ones. */
    private static final List<String> JVM = List.of("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC");

    /** Long, for machines that are busy with more than this. */
    private static final Duration LIMIT = Duration.ofMinutes(5);

    private static final ScheduledExecutorService LIMITS = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "limits");
        thread.setDaemon(true);
        return thread;
    });

    final Peer peer;
    final Scenario scenario;
    final Servers servers;
    private final List<Member> members = new ArrayList<>();

    private record Member(Process process, BufferedReader out, Writer in) {}

    /** Starts them, and does not wait: {@link #await} does. */
    Crew(Peer peer, Scenario scenario, Servers servers, List<String> jvm) throws IOException {
        this.peer = peer;
        this.scenario = scenario;
        this.servers = servers;
        List<String> command = new ArrayList<>();
        command.add(System.getProperty("java.home") + File.separator + "bin" + File.separator + "java");
        command.addAll(JVM);
        command.addAll(jvm);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), Worker.class.getName(), peer.name()));
        servers.ports().forEach(port -> command.add(String.valueOf(port)));
        for (int i = 0; i < scenario.processes; i++) {
            Process process =
                    new ProcessBuilder(command).redirectError(Redirect.INHERIT).start();
            members.add(new Member(
                    process,
                    new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8)),
                    new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8)));
        }
    }

    /** Until all are connected. */
    void await() throws IOException {
        long before = System.nanoTime();
        for (Member member : members) {
            // Holds of several processes can be compared only if their clocks can.
            long itsClock = Long.parseLong(answer(member, Duration.ZERO).get(0));
            if (members.size() > 1 && Math.abs(itsClock - before) > LIMIT.toNanos()) {
                throw new IOException("the monotonic clock of another process here is another one");
            }
        }
    }

    /** Opens the locks. */
    void ready(String name) throws IOException {
        for (Member member : members) {
            tell(member, "ready " + scenario.name() + " " + name);
        }
        for (Member member : members) {
            answer(member, Duration.ZERO);
        }
    }

    /** Does it. */
    Map<Measure, Double> go(Duration duration) throws IOException {
        long start = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(20);
        for (Member member : members) {
            tell(member, "go " + duration.toNanos() + " " + start);
        }
        Map<Measure, Double> results = new EnumMap<>(Measure.class);
        Holds holds = new Holds(members.size());
        for (int i = 0; i < members.size(); i++) {
            for (String word : answer(members.get(i), duration)) {
                String[] parts = word.split(":", -1);
                if (parts[0].equals("hold")) {
                    holds.add(new Holds.Hold(i, Long.parseLong(parts[1]), Long.parseLong(parts[2])));
                } else {
                    results.put(Measure.valueOf(parts[0]), Double.valueOf(parts[1]));
                }
            }
        }
        if (scenario == Scenario.HAND_OFF) {
            holds.into(results, start, duration.toNanos());
        }
        return results;
    }

    /** What they have used of the processors. */
    Duration cpu() {
        return members.stream()
                .map(member -> member.process.info().totalCpuDuration().orElse(Duration.ZERO))
                .reduce(Duration.ZERO, Duration::plus);
    }

    private void tell(Member member, String line) throws IOException {
        try {
            member.in.write(line + "\n");
            member.in.flush();
        } catch (IOException e) {
            throw new IOException("its process ended, " + exit(member.process), e);
        }
    }

    private List<String> answer(Member member, Duration work) throws IOException {
        Duration limit = LIMIT.plus(work);
        AtomicBoolean late = new AtomicBoolean();
        ScheduledFuture<?> end = LIMITS.schedule(
                () -> {
                    late.set(true);
                    member.process.destroyForcibly();
                },
                limit.toSeconds(),
                TimeUnit.SECONDS);
        String line = member.out.readLine();
        while (line != null && !line.startsWith("done") && !line.startsWith("failed ")) {
            // What its JVM says, as to a profiler's option.
            System.err.println(line);
            line = member.out.readLine();
        }
        end.cancel(false);
        if (late.get()) {
            throw new IOException("no answer of its process within " + limit.toSeconds() + " s");
        }
        if (line == null) {
            throw new IOException("its process ended, " + exit(member.process));
        }
        List<String> words = List.of(line.split(" ", -1));
        if (!words.get(0).equals("done")) {
            throw new IOException(line);
        }
        return words.subList(1, words.size());
    }

    private static String exit(Process process) {
        try {
            return process.waitFor(10, TimeUnit.SECONDS) ? "with status " + process.exitValue() : "or so it seems";
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return "or so it seems";
        }
    }

    /** From any thread. */
    @Override
    public void close() {
        for (Member member : members) {
            try {
                // It ends with its input, and then writes what its JVM was asked to write.
                member.in.close();
            } catch (IOException e) {
                // It has ended.
            }
        }
        for (Member member : members) {
            try {
                if (!member.process.waitFor(20, TimeUnit.SECONDS)) {
                    member.process.destroyForcibly().waitFor();
                }
            } catch (InterruptedException e) {
                member.process.destroyForcibly();
                Thread.currentThread().interrupt();
            }
        }
    }

    @Override
    public String toString() {
        return peer.title;
    }
}
