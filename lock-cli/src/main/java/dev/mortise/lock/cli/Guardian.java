package dev.mortise.lock.cli;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * The process that ends the command before the lease can end, whatever becomes of this one. What is said to it and what
 * it says stands in {@code guardian.sh}.
 *
 * <p>Sent to by any thread; asked ({@link #sweep}) by one.
 */
final class Guardian implements AutoCloseable {
    /** Said to by {@link #sweep} when there is no answer. */
    private static final String DEAD = "dead";

    private final Process process;
    private final OutputStream in;
    private final BlockingQueue<String> answers = new ArrayBlockingQueue<>(100);
    private final Thread reader = new Thread(this::read, "mortise-guardian-reader");
    private volatile boolean ended;
    private volatile boolean over;

    private Guardian(Process process) {
        this.process = process;
        in = process.getOutputStream();
    }

    /**
     * Starts one, and does not wait until it is ready.
     *
     * @param grace before the end, in hundredths of a second
     * @param death run when it has ended without being told
     */
    static Guardian start(long grace, Runnable death) throws Failure {
        ProcessBuilder builder = new ProcessBuilder(
                "setsid",
                "sh",
                "-c",
                // Through the environment, because all users see the arguments, and nobody wants to.
                "eval \"$MORTISE_GUARDIAN\"",
                "mortise-guardian",
                "guardian",
                Long.toString(grace));
        builder.environment().put("MORTISE_GUARDIAN", Script.read("guardian.sh"));
        builder.redirectErrorStream(true);
        Process process;
        try {
            process = builder.start();
        } catch (IOException e) {
            throw new Failure(
                    Failure.INTERNAL,
                    "the guardian of the command cannot be started: " + e.getMessage()
                            + "; mortise run needs the programs setsid (of util-linux) and sh",
                    e);
        }
        Guardian guardian = new Guardian(process);
        guardian.reader.setDaemon(true);
        guardian.reader.start();
        Thread watcher = new Thread(() -> guardian.watch(death), "mortise-guardian-watcher");
        watcher.setDaemon(true);
        watcher.start();
        return guardian;
    }

    private void read() {
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.equals("ended")) {
                    ended = true;
                } else {
                    answers.add(line);
                }
            }
        } catch (IOException | IllegalStateException e) {
            // Closed, or full of what nobody asked for: as dead as if it had ended.
        }
        answers.offer(DEAD);
    }

    private void watch(Runnable death) {
        try {
            process.waitFor();
        } catch (InterruptedException e) {
            return;
        }
        if (!over) {
            answers.offer(DEAD);
            death.run();
        }
    }

    /** Waits until it is ready; it needs a few milliseconds. */
    void awaitReady() throws Failure, InterruptedException {
        List<String> said = new ArrayList<>();
        String line;
        while ((line = answers.poll(30, TimeUnit.SECONDS)) != null && !line.equals(DEAD)) {
            if (line.equals("ready")) {
                return;
            }
            said.add(line);
        }
        throw new Failure(
                Failure.INTERNAL,
                "the guardian of the command cannot be started: "
                        + (said.isEmpty()
                                ? line == null ? "no sign in 30 s" : "it was killed"
                                : String.join("; ", said))
                        + "; it needs the programs of coreutils and a folder for temporary files (TMPDIR) that can be"
                        + " written");
    }

    /** The file in which the command is told that it may run. */
    String gate() {
        return "/proc/" + process.pid() + "/fd/3";
    }

    /** The lease ends then, on the uptime clock. */
    void end(long at) {
        say("end " + at);
    }

    void group(long pid, long born, boolean alone) {
        say("group " + pid + " " + born + (alone ? " alone" : " all"));
    }

    /** Passes a signal to the command's group. */
    void signal(String name) {
        say("signal " + name);
    }

    /**
     * Sends a signal, 0 for none, to all that is left of the command.
     *
     * @return the numbers of those that live; null if there is no answer
     */
    @Nullable
    String sweep(String signal) throws InterruptedException {
        answers.clear();
        say("sweep " + signal);
        String answer = process.isAlive() ? answers.poll(5, TimeUnit.SECONDS) : null;
        if (answer == null) {
            // Stopped, say; it must not answer later.
            process.destroyForcibly();
        }
        return answer != null && answer.startsWith("left") ? answer.substring(4).strip() : null;
    }

    private synchronized void say(String line) {
        try {
            // In one write: a line that is cut off when this process is killed would be another line.
            in.write((line + "\n").getBytes(StandardCharsets.US_ASCII));
            in.flush();
        } catch (IOException e) {
            // It is gone, and watch() says so.
        }
    }

    /** Whether it has ended the command, because the end was near. All that it said is known only after {@link #close}. */
    boolean hasEnded() {
        return ended;
    }

    boolean isAlive() {
        return process.isAlive();
    }

    /** Ends it; the command is not guarded any more. */
    @Override
    public void close() {
        over = true;
        say("done");
        boolean interrupted = false;
        try {
            try {
                if (!process.waitFor(5, TimeUnit.SECONDS)) {
                    process.destroyForcibly();
                }
                // Bounded, since its watch lives on for a while if it was killed, with the pipe.
                reader.join(1000);
            } catch (InterruptedException e) {
                interrupted = true;
                process.destroyForcibly();
            }
            in.close();
        } catch (IOException e) {
            // Nothing is left to be said.
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
