package dev.mortise.lock.tck;

import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.tck.Event.Op;
import dev.mortise.lock.tck.Event.Outcome;
import dev.mortise.lock.tck.History.Finding;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Plays scenarios with real clients in processes of their own, which are stopped and killed, and with faults of the store.
 * The processes go on from one scenario to the next. Their histories are merged by the machine's monotonic clock, which all
 * of its processes share. For one thread.
 */
final class Processes implements AutoCloseable {
    /** How many attempts of its own the last acquire of a scenario has. */
    private static final int LAST_ATTEMPTS = 1_000;

    private final Store store;
    private final Guarantees guarantees;
    private final String names;
    private final Duration lease;
    private final Duration longest;
    private final Class<?> program;
    private final Path folder;
    private final AtomicInteger attempts = new AtomicInteger();
    private final AtomicInteger files = new AtomicInteger();
    private final @Nullable Member[] members = new Member[Scenario.CLIENTS];
    private @Nullable CompletableFuture<Member> spare;

    /** All that were started; one that is stopped would not see that the one who goes on with it has ended. */
    private final Set<Process> started = ConcurrentHashMap.newKeySet();

    private final Thread hook = new Thread(() -> started.forEach(Process::destroyForcibly), "lock-tck-end");

    /** A process, with its file and what it was asked. */
    private static final class Member {
        final Process process;
        final Path file;
        final Path errors;
        final OutputStream in;
        final Map<Integer, CompletableFuture<String>> asked = new ConcurrentHashMap<>();
        final AtomicInteger numbers = new AtomicInteger();
        volatile boolean stopped;

        Member(Process process, Path file, Path errors) {
            this.process = process;
            this.file = file;
            this.errors = errors;
            this.in = process.getOutputStream();
        }

        CompletableFuture<String> ask(String what) throws IOException {
            int number = numbers.incrementAndGet();
            CompletableFuture<String> answer = new CompletableFuture<>();
            asked.put(number, answer);
            synchronized (in) {
                try {
                    in.write((number + " " + what + "\n").getBytes(StandardCharsets.UTF_8));
                    in.flush();
                } catch (IOException e) {
                    throw new IOException("a client process ended by itself: " + Files.readString(errors), e);
                }
            }
            return answer;
        }

        void answers(BufferedReader out) {
            try {
                for (String line = out.readLine(); line != null; line = out.readLine()) {
                    if (line.startsWith("ok ")) {
                        String[] words = line.split(" ", 3);
                        CompletableFuture<String> answer = asked.remove(Integer.parseInt(words[1]));
                        if (answer != null) {
                            answer.complete(words[2]);
                        }
                    }
                }
            } catch (IOException e) {
                // It was killed.
            }
            asked.values().forEach(answer -> answer.complete(""));
        }

        void signal(String signal) throws IOException, InterruptedException {
            if (process.isAlive()) {
                new ProcessBuilder("kill", "-s", signal, String.valueOf(process.pid()))
                        .start()
                        .waitFor();
            }
        }

        void end() throws InterruptedException {
            process.destroyForcibly();
            process.waitFor();
        }
    }

    /** The clocks of this machine's processes cannot be compared. */
    static final class NoCommonClock extends IOException {
        private static final long serialVersionUID = 1;
    }

    /**
     * Starts no process yet.
     *
     * @param prefix of all names
     * @param longest how long what must happen may take
     * @param program {@link ClientProcess}, or one that is wrong
     */
    Processes(Store store, Guarantees guarantees, String prefix, Duration lease, Duration longest, Class<?> program)
            throws IOException {
        this.names = prefix;
        this.store = store;
        this.guarantees = guarantees;
        this.lease = lease;
        this.longest = longest;
        this.program = program;
        this.folder = Files.createTempDirectory("lock-tck");
        Runtime.getRuntime().addShutdownHook(hook);
    }

    Duration lease() {
        return lease;
    }

    /** What happened; all processes are well afterwards, and hold nothing. */
    History play(Scenario scenario) throws IOException, InterruptedException {
        List<CompletableFuture<Member>> starting = new ArrayList<>();
        for (int i = 0; i < members.length; i++) {
            Member member = members[i];
            starting.add(
                    member != null && member.process.isAlive()
                            ? CompletableFuture.completedFuture(member)
                            : startAside());
        }
        for (int i = 0; i < members.length; i++) {
            members[i] = await(starting.get(i));
        }
        return new Play(scenario).play();
    }

    // --------------------------------------------------------------------------------------------------- processes

    private CompletableFuture<Member> startAside() {
        CompletableFuture<Member> ready = new CompletableFuture<>();
        Thread thread = new Thread(
                () -> {
                    try {
                        ready.complete(start());
                    } catch (Throwable e) {
                        ready.completeExceptionally(e);
                    }
                },
                "lock-tck-start");
        thread.setDaemon(true);
        thread.start();
        return ready;
    }

    private static Member await(CompletableFuture<Member> starting) throws IOException, InterruptedException {
        try {
            return starting.get();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof IOException failed) {
                throw failed;
            }
            throw new IOException("a client process could not be started", e.getCause());
        }
    }

    private Member start() throws IOException {
        int number = files.incrementAndGet();
        Path file = folder.resolve("client-" + number);
        Path errors = folder.resolve("errors-" + number);
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-Xshare:auto",
                "-Xmx256m"));
        // A driver unpacks its native library there, and leaves it behind when it is killed.
        command.add("-Djava.io.tmpdir=" + folder);
        System.getProperties().stringPropertyNames().stream()
                .filter(property -> property.startsWith("org.sqlite."))
                .forEach(property -> command.add("-D" + property + "=" + System.getProperty(property)));
        if (Runtime.version().feature() >= 22) {
            // A driver that loads a native library would be warned of.
            command.add("--enable-native-access=ALL-UNNAMED");
        }
        command.addAll(List.of(
                "-cp",
                System.getProperty("java.class.path"),
                program.getName(),
                names,
                String.valueOf(lease.toMillis()),
                file.toString(),
                store.resource().map(r -> r.type().getName()).orElse(""),
                store.resource().map(ProtectedResource.Reference::argument).orElse("")));
        ProcessBuilder builder = new ProcessBuilder(command).redirectError(errors.toFile());
        builder.environment().remove("JAVA_TOOL_OPTIONS");
        long before = System.nanoTime();
        Process process = builder.start();
        started.add(process);
        Member member = new Member(process, file, errors);
        StringBuilder where = new StringBuilder(line(store.uri().orElseThrow()));
        store.options().forEach((option, value) -> where.append(line(option + "=" + value)));
        try {
            member.in.write(where.append('\n').toString().getBytes(StandardCharsets.UTF_8));
            member.in.flush();
        } catch (IOException e) {
            // It has ended at once, which is told below.
        }
        BufferedReader out =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        String line = out.readLine();
        if (line == null || !line.startsWith("ready ")) {
            throw new IOException("a client process ended at once: " + Files.readString(errors));
        }
        long itsClock = Long.parseLong(line.substring("ready ".length()));
        if (itsClock < before || itsClock > System.nanoTime()) {
            process.destroyForcibly();
            throw new NoCommonClock();
        }
        Thread reader = new Thread(() -> member.answers(out), "lock-tck-answers");
        reader.setDaemon(true);
        reader.start();
        return member;
    }

    private static String line(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8)) + "\n";
    }

    private Member member(int client) {
        Member member = members[client];
        if (member == null) {
            throw new IllegalStateException("client " + client + " has no process");
        }
        return member;
    }

    @Override
    public void close() throws IOException, InterruptedException {
        CompletableFuture<Member> last = spare;
        if (last != null) {
            // So that none is started after this.
            last.exceptionally(e -> null).join();
        }
        for (Process process : started) {
            process.destroyForcibly();
            process.waitFor();
        }
        Runtime.getRuntime().removeShutdownHook(hook);
        try (Stream<Path> all = Files.walk(folder)) {
            for (Path each : all.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(each);
            }
        }
    }

    // ------------------------------------------------------------------------------------------------ one scenario

    /** What a process did in a scenario, from this byte of its file on. */
    private record Part(Member member, int client, long from) {}

    private record Span(long from, long until) {}

    private final class Play {
        private final Scenario scenario;
        private final History history = new History();
        private final String prefix = names + UUID.randomUUID().toString().substring(0, 8) + "-";
        private final List<Part> parts = new ArrayList<>();
        private final Map<Member, Span> killed = new HashMap<>();
        private final Map<Member, List<Span>> stops = new HashMap<>();
        private final Set<Integer> asked = new HashSet<>();
        private final long callTimeout = lease.toNanos() / 4;
        private CompletableFuture<Void> faults = CompletableFuture.completedFuture(null);
        private boolean faulty;
        private boolean slow;

        Play(Scenario scenario) {
            this.scenario = scenario;
        }

        History play() throws IOException, InterruptedException {
            for (int i = 0; i < members.length; i++) {
                parts.add(new Part(member(i), i, Files.size(member(i).file)));
            }
            boolean kills = scenario.steps().stream().anyMatch(s -> s.kind() == Step.Kind.KILL);
            if (kills && spare == null) {
                spare = startAside();
            }
            CompletableFuture<Member> ahead = spare;
            if (kills && ahead != null && scenario.steps().stream().anyMatch(s -> s.kind() == Step.Kind.FAULT)) {
                await(ahead); // In the middle of a fault it could not connect.
            }
            try {
                for (Step step : scenario.steps()) {
                    play(step);
                }
            } finally {
                settle();
            }
            finish();
            for (Part part : parts) {
                new Account(part).read();
            }
            return history;
        }

        private long part(int thousandths) {
            return lease.toNanos() / 1000 * thousandths;
        }

        private void play(Step step) throws IOException, InterruptedException {
            int client = step.client();
            String name = prefix + (char) ('a' + step.name());
            switch (step.kind()) {
                case ACQUIRE -> {
                    asked.add(step.name());
                    begin(client, "acquire " + attempts.incrementAndGet() + " " + name + " " + part(step.amount()));
                }
                case RELEASE -> begin(client, "release " + name);
                case READ -> begin(client, "read " + name);
                case WRITE -> begin(client, "write " + name);
                case ADOPT -> adopt(client, name);
                case WAIT -> TimeUnit.NANOSECONDS.sleep(part(step.amount()));
                case EDGE -> edge(step.amount());
                case STOP -> stop(client, part(step.amount()));
                case KILL -> kill(client);
                case EVICT -> evict(name);
                case SLOW -> slow(part(step.amount()));
                case FAULT -> fault(step.fault(), part(step.amount()));
                default -> {}
            }
        }

        /** A step goes on by itself when it takes longer than a tenth of the lease: waits and calls without answer. */
        private void begin(int client, String what) throws IOException, InterruptedException {
            Member member = member(client);
            CompletableFuture<String> answer = member.ask(what);
            if (!member.stopped) {
                answer(answer, lease.toNanos() / 10);
            }
        }

        private @Nullable String answer(CompletableFuture<String> asked, long nanos) throws InterruptedException {
            try {
                return asked.get(nanos, TimeUnit.NANOSECONDS);
            } catch (TimeoutException e) {
                return null;
            } catch (ExecutionException e) {
                throw new IllegalStateException("it is only completed", e);
            }
        }

        /** The client takes over what another detaches for it, the first that can. */
        private void adopt(int heir, String name) throws IOException, InterruptedException {
            if (!guarantees.outlivesClient()) {
                return;
            }
            for (int i = 1; i <= members.length; i++) {
                Member member = member((heir + i) % members.length);
                if (member.stopped) {
                    continue;
                }
                String answer = answer(member.ask("detach " + name), lease.toNanos());
                if (answer != null && !answer.isEmpty()) {
                    String[] words = answer.split(" ", 2);
                    begin(heir, "adopt " + attempts.incrementAndGet() + " " + name + " " + words[0] + " " + words[1]);
                    return;
                }
            }
        }

        /**
         * Before the end of the lease that ends first of those that are not renewed, because their clients are stopped or
         * killed or the store does not answer; or after the latest end that the store declares for it.
         */
        private void edge(int thousandths) throws IOException, InterruptedException {
            long now = System.nanoTime();
            long soonest = Long.MAX_VALUE;
            boolean all = !faults.isDone();
            for (Part part : parts) {
                if (all || part.member.stopped || killed.containsKey(part.member)) {
                    for (long deadline : new Account(part).deadlines().values()) {
                        long length = lease.toNanos();
                        long since = deadline - length + Event.margin(length);
                        long freed = guarantees.freedWithin(lease).toNanos();
                        long end = since + (thousandths > 0 ? freed + Event.margin(freed) : length);
                        if (end > now) {
                            soonest = Math.min(soonest, end - now);
                        }
                    }
                }
            }
            if (soonest != Long.MAX_VALUE) {
                TimeUnit.NANOSECONDS.sleep(soonest + part(thousandths));
            }
        }

        private void stop(int client, long nanos) throws IOException, InterruptedException {
            Member member = member(client);
            if (member.stopped) {
                return;
            }
            long from = System.nanoTime();
            member.stopped = true;
            member.signal("STOP");
            List<Span> spans = stops.computeIfAbsent(member, m -> new ArrayList<>());
            Clock.MACHINE.at(from + nanos, () -> {
                try {
                    synchronized (member) {
                        if (member.stopped) {
                            goOn(member, client, from, spans);
                        }
                    }
                } catch (IOException | InterruptedException e) {
                    history.failed("a client process could not be told to go on: " + e);
                }
            });
        }

        private void goOn(Member member, int client, long from, List<Span> spans)
                throws IOException, InterruptedException {
            long until = System.nanoTime();
            member.signal("CONT");
            synchronized (spans) {
                spans.add(new Span(from, until));
            }
            history.add(Event.of(client, -1, "", Op.STOP, Outcome.DONE, from, until));
            member.stopped = false;
        }

        private void kill(int client) throws IOException, InterruptedException {
            Member member = member(client);
            synchronized (member) {
                member.stopped = false;
                long from = System.nanoTime();
                member.end();
                long until = System.nanoTime();
                started.remove(member.process);
                killed.put(member, new Span(from, until));
                history.add(Event.of(client, -1, "", Op.KILL, Outcome.DONE, from, until));
            }
            CompletableFuture<Member> next = spare;
            Member other = await(next != null ? next : startAside());
            members[client] = other;
            parts.add(new Part(other, client, Files.size(other.file)));
            spare = startAside();
        }

        private void evict(String name) {
            // The store may be away, and the kit then asks nothing else of it.
            if (store.canEvict() && faults.isDone()) {
                long from = System.nanoTime();
                store.evict(name);
                history.add(Event.of(-1, -1, name, Op.EVICT, Outcome.DONE, from, System.nanoTime()));
            }
        }

        /** Answers come so much later, where that befalls other processes as well. */
        private void slow(long nanos) {
            Faults can = store.faults().orElse(null);
            if (can != null && faults.isDone()) {
                can.delayReplies(Duration.ofNanos(Math.min(nanos, callTimeout / 2)));
                slow = nanos > 0;
            }
        }

        private void fault(Fault fault, long nanos) {
            Faults can = store.faults().orElse(null);
            if (can == null || !can.possible().contains(fault)) {
                return;
            }
            slow(0);
            faulty = true;
            faults = faults.thenRunAsync(
                    () -> {
                        long from = System.nanoTime();
                        try (AutoCloseable begun = can.begin(fault)) {
                            TimeUnit.NANOSECONDS.sleep(nanos);
                        } catch (Exception e) {
                            throw new CompletionException("Faults.begin(" + fault + ") or its end threw", e);
                        }
                        history.add(
                                Event.of(-1, -1, Step.word(fault), Op.FAULT, Outcome.DONE, from, System.nanoTime()));
                    },
                    task -> {
                        Thread thread = new Thread(task, "lock-tck-fault");
                        thread.setDaemon(true);
                        thread.start();
                    });
        }

        /** Lets all faults and stops end. */
        private void settle() throws IOException, InterruptedException {
            try {
                faults.get();
                if (slow) {
                    slow(0);
                }
            } catch (ExecutionException e) {
                throw new IllegalStateException("a fault of the store went wrong", e);
            } finally {
                for (Member member : stops.keySet()) {
                    while (member.stopped) {
                        TimeUnit.MILLISECONDS.sleep(1);
                    }
                }
            }
        }

        /** All that was begun ends, all leases are released, and then each lock that was asked for is had once more. */
        private void finish() throws IOException, InterruptedException {
            long patience = 0;
            for (Step step : scenario.steps()) {
                if (step.kind() == Step.Kind.ACQUIRE) {
                    patience = Math.max(patience, part(step.amount()));
                }
            }
            List<CompletableFuture<String>> ends = new ArrayList<>();
            for (int i = 0; i < members.length; i++) {
                ends.add(member(i).ask("finish"));
            }
            long limit = patience + 2 * callTimeout + longest.toNanos();
            long until = System.nanoTime() + limit;
            for (int i = 0; i < members.length; i++) {
                if (answer(ends.get(i), Math.max(1, until - System.nanoTime())) == null) {
                    history.broken(new Finding(
                            faulty ? Rule.R6_5 : Rule.R4_2,
                            "a call of client " + i + " had not ended " + ms(limit)
                                    + " after all was well again, with patience and call timeout"));
                    kill(i);
                }
            }
            Map<Integer, CompletableFuture<String>> last = new LinkedHashMap<>();
            long wait = guarantees.freedWithin(lease).toNanos() + longest.toNanos();
            int client = 0;
            for (int name : asked) {
                int attempt = attempts.getAndAdd(LAST_ATTEMPTS) + 1;
                last.put(
                        name,
                        member(client++ % members.length)
                                .ask("last " + attempt + " " + prefix + (char) ('a' + name) + " " + wait));
            }
            for (Map.Entry<Integer, CompletableFuture<String>> each : last.entrySet()) {
                Rule rule = faulty ? Rule.R6_4 : Rule.R4_3;
                history.tried(rule);
                String answer = answer(each.getValue(), wait + longest.toNanos());
                if (answer == null || !answer.equals("granted")) {
                    history.broken(new Finding(
                            rule,
                            "lock " + (char) ('a' + each.getKey()) + " was asked for during " + ms(wait)
                                    + " when all was well and nobody held it, and was not had"));
                }
            }
            // Two locks may have been with one client; what it holds in the end is nothing.
            for (int i = 0; i < members.length; i++) {
                if (answer(member(i).ask("finish"), limit) == null) {
                    kill(i);
                }
            }
        }

        // ------------------------------------------------------------------------------------------ what they wrote

        /** One process's file as events. */
        private final class Account {
            private final Part part;
            private final List<String[]> lines = new ArrayList<>();
            private final Map<Integer, String> name = new HashMap<>();
            private final Map<Integer, Long> asked = new HashMap<>();
            private final Map<Integer, String[]> adopting = new HashMap<>();
            private final Map<Integer, Long> releasing = new HashMap<>();
            private final Map<Integer, Long> detaching = new HashMap<>();
            private final Map<Integer, Long> token = new HashMap<>();
            private final Map<Integer, Long> granted = new HashMap<>();
            private final Map<Integer, Long> reading = new HashMap<>();
            private final Map<Integer, String[]> writing = new HashMap<>();
            private final Set<Integer> held = new HashSet<>();
            private final long length = lease.toNanos();

            Account(Part part) throws IOException {
                this.part = part;
                byte[] all;
                try (InputStream in = Files.newInputStream(part.member.file)) {
                    in.skipNBytes(part.from);
                    all = in.readAllBytes();
                }
                int end = all.length;
                while (end > 0 && all[end - 1] != '\n') {
                    end--; // The last line of one that was killed.
                }
                new String(all, 0, end, StandardCharsets.UTF_8).lines().forEach(line -> lines.add(line.split(" ", -1)));
            }

            /** Of the leases that it holds, as far as it is known. */
            Map<Integer, Long> deadlines() {
                Map<Integer, Long> deadlines = new HashMap<>();
                for (String[] w : lines) {
                    int attempt = Integer.parseInt(w[1]);
                    switch (w[0]) {
                        case "granted", "adopted" -> deadlines.put(attempt, Long.parseLong(w[4]));
                        case "held" -> deadlines.put(attempt, Long.parseLong(w[5]));
                        case "release", "detach", "over" -> deadlines.remove(attempt);
                        default -> {}
                    }
                }
                return deadlines;
            }

            void read() {
                lines.forEach(this::read);
                Span kill = killed.get(part.member);
                if (kill == null) {
                    return;
                }
                // From its death on nothing more was sent, and what had been was carried out soon.
                long dead = kill.until + callTimeout;
                asked.forEach((attempt, at) -> add(attempt, Op.ACQUIRE, Outcome.UNKNOWN, at, dead));
                adopting.forEach((attempt, w) -> adopted(attempt, w, Outcome.UNKNOWN, dead));
                releasing.forEach((attempt, at) -> add(attempt, Op.RELEASE, Outcome.UNKNOWN, at, dead));
                detaching.forEach((attempt, at) -> add(attempt, Op.RENEW, Outcome.UNKNOWN, at, dead));
                writing.forEach((attempt, w) -> wrote(attempt, w, Outcome.UNKNOWN, dead));
                for (int attempt : held) {
                    add(attempt, Op.LOST, Outcome.DONE, kill.from, kill.from);
                    add(attempt, Op.RENEW, Outcome.UNKNOWN, kill.from, dead);
                }
            }

            private void read(String[] w) {
                int attempt = Integer.parseInt(w[1]);
                long at = Long.parseLong(w[2]);
                switch (w[0]) {
                    case "acquire" -> {
                        name.put(attempt, w[3]);
                        asked.put(attempt, at);
                    }
                    case "granted" -> {
                        grant(attempt, at, w);
                        history.add(event(attempt, Op.ACQUIRE, Outcome.DONE, asked(attempt, at), at)
                                .granted(Long.parseLong(w[3]), since(w[4]), length));
                    }
                    // What a refusal says of the rest is not told to users.
                    case "refused" ->
                        history.add(event(attempt, Op.ACQUIRE, Outcome.REFUSED, asked(attempt, at), at)
                                .value(-1));
                    case "unknown" -> {
                        history.unanswered(Op.ACQUIRE, w[3].replace('_', ' '));
                        add(attempt, Op.ACQUIRE, Outcome.UNKNOWN, asked(attempt, at), at);
                    }
                    case "failed" -> {
                        history.failed("client " + part.client + ": " + w[3].replace('_', ' '));
                        if (asked.containsKey(attempt)) {
                            add(attempt, Op.ACQUIRE, Outcome.UNKNOWN, asked(attempt, at), at);
                        }
                    }
                    case "adopt" -> {
                        name.put(attempt, w[3]);
                        adopting.put(attempt, w);
                    }
                    case "adopted" -> {
                        grant(attempt, at, w);
                        String[] begun = adopting.remove(attempt);
                        if (begun != null) {
                            history.add(event(attempt, Op.ADOPT, Outcome.DONE, Long.parseLong(begun[2]), at)
                                    .after(Integer.parseInt(begun[4]))
                                    .granted(Long.parseLong(w[3]), since(w[4]), length));
                        }
                    }
                    case "unheired" -> adopted(attempt, adopting.remove(attempt), Outcome.REFUSED, at);
                    case "unadopted" -> adopted(attempt, adopting.remove(attempt), Outcome.UNKNOWN, at);
                    // Some time between two looks; it had been asked for before the first, perhaps.
                    case "held" -> {
                        long earliest = Math.max(granted.getOrDefault(attempt, at), Long.parseLong(w[3]) - callTimeout);
                        history.add(event(attempt, Op.RENEW, Outcome.DONE, Math.min(earliest, at), at)
                                .granted(Long.parseLong(w[4]), since(w[5]), length));
                    }
                    case "uncertain" -> {
                        if (held.contains(attempt)) {
                            add(attempt, Op.RENEW, Outcome.UNKNOWN, at - callTimeout, at);
                        }
                    }
                    case "over" -> {
                        held.remove(attempt);
                        if (w[4].equals("deadline")) {
                            history.tried(Rule.R6_8);
                        }
                        add(attempt, Op.LOST, Outcome.DONE, at, at);
                        // A renewal may have been on its way, which nobody heard of.
                        long before = Long.parseLong(w[3]);
                        long sent = at;
                        for (Span stop : stops.getOrDefault(part.member, List.of())) {
                            if (stop.until >= before && stop.from <= at) {
                                sent = Math.min(sent, stop.from + callTimeout);
                            }
                        }
                        long asked = Math.max(granted.getOrDefault(attempt, sent), before - callTimeout);
                        add(attempt, Op.RENEW, Outcome.UNKNOWN, Math.min(asked, sent), sent);
                    }
                    case "late" ->
                        history.broken(new Finding(
                                Rule.R6_8,
                                "client " + part.client + " held its lease #" + attempt + " (token "
                                        + token.getOrDefault(attempt, 0L) + ") still "
                                        + ms(Long.parseLong(w[3]))
                                        + " after the deadline that it had named, and no renewal had been confirmed"));
                    case "again" ->
                        history.broken(new Finding(
                                Rule.R6_8,
                                "client " + part.client + " held its lease #" + attempt + " (token "
                                        + token.getOrDefault(attempt, 0L) + ") again after it had been over"));
                    case "release" -> {
                        held.remove(attempt);
                        releasing.put(attempt, at);
                    }
                    case "released", "gone", "unreleased" -> {
                        Outcome outcome = w[0].equals("released")
                                ? Outcome.DONE
                                : w[0].equals("gone") ? Outcome.REFUSED : Outcome.UNKNOWN;
                        Long begun = releasing.remove(attempt);
                        add(attempt, Op.RELEASE, outcome, begun == null ? at : begun, at);
                    }
                    case "detach" -> {
                        held.remove(attempt);
                        detaching.put(attempt, at);
                        add(attempt, Op.LOST, Outcome.DONE, at, at);
                    }
                    case "detached", "undetached" -> {
                        Long begun = detaching.remove(attempt);
                        boolean done = w[0].equals("detached");
                        Event event = event(
                                attempt,
                                Op.RENEW,
                                done ? Outcome.DONE : Outcome.UNKNOWN,
                                begun == null ? at : begun,
                                at);
                        history.add(event.granted(token.getOrDefault(attempt, 0L), done ? event.invoked() : 0, length));
                    }
                    case "read" -> reading.put(attempt, at);
                    case "seen" -> read(attempt, Outcome.DONE, at, Long.parseLong(w[3]));
                    case "stale" -> read(attempt, Outcome.REFUSED, at, 0);
                    case "unread" -> read(attempt, Outcome.UNKNOWN, at, 0);
                    case "write" -> writing.put(attempt, w);
                    case "written" -> wrote(attempt, writing.remove(attempt), Outcome.DONE, at);
                    case "rejected" -> wrote(attempt, writing.remove(attempt), Outcome.REFUSED, at);
                    case "unwritten" -> wrote(attempt, writing.remove(attempt), Outcome.UNKNOWN, at);
                    default -> throw new IllegalStateException("a client process wrote " + Arrays.toString(w));
                }
            }

            private void grant(int attempt, long at, String[] w) {
                token.put(attempt, Long.parseLong(w[3]));
                granted.put(attempt, at);
                held.add(attempt);
            }

            /** As if the lease counted from here: its deadline is what was told. */
            private long since(String deadline) {
                return Long.parseLong(deadline) - length + Event.margin(length);
            }

            private long asked(int attempt, long fallback) {
                Long at = asked.remove(attempt);
                return at == null ? fallback : at;
            }

            private void adopted(int attempt, String @Nullable [] begun, Outcome outcome, long at) {
                if (begun != null) {
                    history.add(event(attempt, Op.ADOPT, outcome, Long.parseLong(begun[2]), at)
                            .after(Integer.parseInt(begun[4])));
                }
            }

            private void read(int attempt, Outcome outcome, long at, long value) {
                Long begun = reading.remove(attempt);
                history.add(event(attempt, Op.READ, outcome, begun == null ? at : begun, at)
                        .granted(token.getOrDefault(attempt, 0L), 0, 0)
                        .value(value));
            }

            private void wrote(int attempt, String @Nullable [] begun, Outcome outcome, long at) {
                if (begun != null) {
                    history.add(event(attempt, Op.WRITE, outcome, Long.parseLong(begun[2]), at)
                            .granted(Long.parseLong(begun[3]), Long.parseLong(begun[4]), 0)
                            .value(Long.parseLong(begun[5])));
                }
            }

            private void add(int attempt, Op op, Outcome outcome, long invoked, long returned) {
                history.add(event(attempt, op, outcome, invoked, returned));
            }

            private Event event(int attempt, Op op, Outcome outcome, long invoked, long returned) {
                return Event.of(part.client, attempt, name.getOrDefault(attempt, ""), op, outcome, invoked, returned)
                        .granted(0, 0, length);
            }
        }
    }

    private static String ms(long nanos) {
        return String.format(Locale.ROOT, "%.3f ms", nanos / 1e6);
    }
}
