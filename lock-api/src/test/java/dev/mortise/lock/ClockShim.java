package dev.mortise.lock;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** Steps the wall clock of a server of a test's own, while it runs: a few lines of C, to be preloaded into it. */
public final class ClockShim implements AutoCloseable {
    private final Path folder;
    private final Path shim;
    private int files;

    private ClockShim(Path folder, Path shim) {
        this.folder = folder;
        this.shim = shim;
    }

    /** Empty where there is no C compiler: then a test does what a step would do, as an administrator could. */
    public static Optional<ClockShim> compiled() {
        try {
            // Not one of JUnit's: a server that runs as somebody else must be able to enter.
            Path folder = Files.createTempDirectory("mcs");
            Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
            Path source = folder.resolve("clockshim.c");
            Path shim = folder.resolve("clockshim.so");
            try (InputStream in = ClockShim.class.getResourceAsStream("clockshim.c")) {
                Files.copy(in, source);
            }
            Process cc;
            try {
                cc = new ProcessBuilder("cc", "-shared", "-fPIC", "-O1", "-o", shim.toString(), source.toString())
                        .inheritIO()
                        .start();
            } catch (IOException e) {
                System.out.println("There is no C compiler (cc): clocks of servers are not stepped, the test does what"
                        + " a step would do instead.");
                new ClockShim(folder, shim).close();
                return Optional.empty();
            }
            assertThat(cc.waitFor(60, TimeUnit.SECONDS)).isTrue();
            assertThat(cc.exitValue()).isZero();
            return Optional.of(new ClockShim(folder, shim));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** The clock of one server. */
    public final class Clock {
        private final ByteBuffer offsets;
        private final Path file;

        private Clock(Path file) throws IOException {
            this.file = file;
            Files.write(file, new byte[16]);
            Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r--r--"));
            try (RandomAccessFile open = new RandomAccessFile(file.toFile(), "rw")) {
                offsets = open.getChannel()
                        .map(FileChannel.MapMode.READ_WRITE, 0, 16)
                        .order(ByteOrder.nativeOrder());
            }
        }

        /** What to start the server with. */
        public Map<String, String> environment() {
            return Map.of("LD_PRELOAD", shim.toString(), "CLOCKSHIM_FILE", file.toString());
        }

        /** So far from the right time from now on; forward if it is positive. */
        public void set(Duration ahead) {
            offsets.putLong(0, ahead.toNanos());
        }
    }

    /** A right one, at first. */
    public Clock clock() {
        try {
            return new Clock(folder.resolve("offsets" + files++));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** After the servers have ended. */
    @Override
    public void close() {
        try {
            try (var all = Files.list(folder)) {
                for (Path each : all.toList()) {
                    Files.delete(each);
                }
            }
            Files.delete(folder);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
