package dev.mortise.lock.cli;

import java.io.File;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** The command: a process that waits at the guardian's gate, and then all that it starts. */
final class Command {
    private final Process leader;
    private final long born;
    private final boolean alone;

    private Command(Process leader, long born, boolean alone) {
        this.leader = leader;
        this.born = born;
        this.alone = alone;
    }

    /**
     * Says what the shell would say of a command that it cannot find, or cannot run. Asked under the lock, because the
     * holder before may have made it.
     */
    static void require(String name) throws Failure {
        if (name.indexOf('/') >= 0) {
            File file = new File(name);
            if (!file.exists()) {
                throw new Failure(Failure.NOT_FOUND, "the command " + Text.quoted(name) + " does not exist");
            }
            if (file.isDirectory() || !file.canExecute()) {
                throw new Failure(
                        Failure.NOT_EXECUTABLE,
                        "the command " + Text.quoted(name) + " cannot be executed: "
                                + (file.isDirectory() ? "it is a folder" : "try chmod +x"));
            }
            return;
        }
        String path = System.getenv("PATH");
        if (name.isEmpty() || path == null) {
            return;
        }
        File blocked = null;
        for (String folder : path.split(":", -1)) {
            File file = new File(folder.isEmpty() ? "." : folder, name);
            if (file.isFile()) {
                if (file.canExecute()) {
                    return;
                }
                blocked = file;
            }
        }
        if (blocked != null) {
            throw new Failure(
                    Failure.NOT_EXECUTABLE,
                    "the command " + Text.quoted(blocked.getPath()) + " cannot be executed: try chmod +x");
        }
        throw new Failure(
                Failure.NOT_FOUND,
                "the command " + Text.quoted(name) + " was not found in any folder of PATH; check its name");
    }

    /**
     * Starts the process, which does not run the command before the gate is opened.
     *
     * @param arguments coded or not, as {@code command.sh} takes them
     * @param variables put into its environment
     * @param alone whether it stays in our session, where the terminal is; its own children are then not known
     */
    static Command start(
            String gate, boolean coded, List<String> arguments, Map<String, String> variables, boolean alone)
            throws Failure {
        List<String> words = new ArrayList<>();
        if (!alone) {
            // Ours is no leader of a group yet, so setsid need not fork, and its number is the session's.
            words.add("setsid");
        }
        words.addAll(List.of("sh", "-c", Script.read("command.sh"), "mortise", gate, coded ? "coded" : "plain"));
        words.addAll(arguments);
        ProcessBuilder builder = new ProcessBuilder(words).inheritIO();
        builder.environment().putAll(variables);
        Process process;
        try {
            process = builder.start();
        } catch (IOException e) {
            throw new Failure(Failure.NOT_EXECUTABLE, "the command cannot be started: " + e.getMessage(), e);
        }
        Machine.Stat stat = Machine.stat(process.pid());
        if (stat == null) {
            process.destroyForcibly();
            throw new Failure(Failure.INTERNAL, "the command ended before it was started: somebody killed it");
        }
        return new Command(process, stat.born, alone);
    }

    void guardBy(Guardian guardian) {
        guardian.group(leader.pid(), born, alone);
    }

    /** Waits for the end of the command itself: its exit code, 128 + n if signal n ended it. */
    int await() throws InterruptedException {
        return leader.waitFor();
    }

    /** The living processes of the command, as far as they are known. */
    List<Long> left() {
        if (alone) {
            return leader.isAlive() ? List.of(leader.pid()) : List.of();
        }
        try {
            return Machine.session(leader.pid(), born);
        } catch (IOException e) {
            throw new IllegalStateException(e.getMessage(), e);
        }
    }

    /** Kills what is left, once; without the guardian, which may be gone. */
    void kill() {
        if (alone) {
            leader.destroyForcibly();
            return;
        }
        if (!left().isEmpty()) {
            killGroup();
            // Those in groups of their own; and all, if there was no process to be had for the group.
            for (long pid : left()) {
                Optional<ProcessHandle> handle = ProcessHandle.of(pid);
                if (handle.isPresent()) {
                    handle.get().destroyForcibly();
                }
            }
        }
    }

    /** In one step, so that no child gets away while the others are being killed. Java knows only single processes. */
    private void killGroup() {
        ProcessBuilder builder = new ProcessBuilder("sh", "-c", "kill -s KILL -- \"-$0\"", Long.toString(leader.pid()))
                .redirectErrorStream(true)
                .redirectOutput(Redirect.DISCARD);
        try {
            Process kill = builder.start();
            if (!kill.waitFor(5, TimeUnit.SECONDS)) {
                kill.destroyForcibly();
            }
        } catch (IOException e) {
            // No process left for us; one by one then.
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
