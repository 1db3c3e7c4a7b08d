package dev.mortise.lock.cli;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** What {@code /proc} tells of the machine and its processes. */
final class Machine {
    private Machine() {}

    /** The uptime clock in hundredths of a second, as the guardian reads it. */
    static long uptime() throws IOException {
        String text = read("/proc/uptime");
        int dot = text.indexOf('.');
        int end = text.indexOf(' ');
        if (dot < 1 || end != dot + 3) {
            throw new IOException("/proc/uptime reads '" + text.strip() + "'");
        }
        return Long.parseLong(text, 0, dot, 10) * 100 + Long.parseLong(text, dot + 1, end, 10);
    }

    /** One process as its {@code stat} file has it. Immutable. */
    static final class Stat {
        final long session;
        final long born;
        final boolean alive;

        private Stat(String line) {
            // The name, second in the line, may hold spaces and parentheses.
            String[] fields = line.substring(line.lastIndexOf(')') + 2).split(" ", -1);
            session = Long.parseLong(fields[3]);
            born = Long.parseLong(fields[19]);
            // Where a zombie has other threads, only its main thread has ended.
            char state = fields[0].charAt(0);
            alive = (state != 'Z' && state != 'X' && state != 'x') || Long.parseLong(fields[17]) > 1;
        }
    }

    /** This process; null if there is none. */
    static @Nullable Stat stat(long pid) {
        try {
            String line = read("/proc/" + pid + "/stat");
            return line.isEmpty() ? null : new Stat(line);
        } catch (IOException e) {
            // Never there, or ended while being read.
            return null;
        }
    }

    /** The living processes of the session whose leader has, or had, this number and was born then. */
    static List<Long> session(long leader, long born) throws IOException {
        Stat first = stat(leader);
        if (first != null && first.born != born) {
            // The number is a stranger's: it is given away only when nobody of the session is left.
            return List.of();
        }
        String[] names = new File("/proc").list();
        if (names == null) {
            throw new IOException("/proc cannot be listed");
        }
        List<Long> found = new ArrayList<>();
        for (String name : names) {
            if (name.charAt(0) >= '0' && name.charAt(0) <= '9') {
                long pid = Long.parseLong(name);
                Stat stat = stat(pid);
                // A leader that is still on its way to its session counts, too.
                if (stat != null && stat.alive && (stat.session == leader || pid == leader)) {
                    found.add(pid);
                }
            }
        }
        return found;
    }

    private static String read(String file) throws IOException {
        try (FileInputStream in = new FileInputStream(file)) {
            // In one read, so that the numbers belong together.
            byte[] bytes = new byte[4096];
            int length = in.read(bytes);
            return length <= 0 ? "" : new String(bytes, 0, length, StandardCharsets.ISO_8859_1);
        }
    }
}
