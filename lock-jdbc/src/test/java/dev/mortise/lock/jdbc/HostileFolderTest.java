package dev.mortise.lock.jdbc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

/**
 * Folders that are read-only, full, or forbid programs: one clear message each. For root, whom permissions do not bind,
 * they are made with file attributes and mounts; where that is not possible either, the test says so.
 */
@DisabledOnOs(OS.WINDOWS)
class HostileFolderTest {
    private static final boolean ROOT = "root".equals(System.getProperty("user.name"));

    @TempDir
    Path folder;

    private final Deque<String[]> undo = new ArrayDeque<>();

    @AfterEach
    void undo() throws Exception {
        while (!undo.isEmpty()) {
            assertThat(run(undo.pop())).isTrue();
        }
    }

    private static boolean run(String... command) throws IOException, InterruptedException {
        Process process;
        try {
            process = new ProcessBuilder(command)
                    .redirectErrorStream(true)
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .start();
        } catch (IOException e) {
            return false;
        }
        return process.waitFor(20, TimeUnit.SECONDS) && process.exitValue() == 0;
    }

    private void forbidWrites(Path path, String permissions) throws Exception {
        if (ROOT) {
            assumeTrue(run("chattr", "+i", path.toString()), "root, and the file system has no attribute 'immutable'");
            undo.push(new String[] {"chattr", "-i", path.toString()});
        } else {
            String before = PosixFilePermissions.toString(Files.getPosixFilePermissions(path));
            Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(permissions));
            undo.push(new String[] {"chmod", before.startsWith("rwx") ? "700" : "600", path.toString()});
        }
    }

    private Path mount(String options) throws Exception {
        Path mount = Files.createDirectory(folder.resolve("mount"));
        assumeTrue(
                run("mount", "-t", "tmpfs", "-o", options, "mortise-test", mount.toString()),
                "no right to mount; another test covers what needs no mount");
        undo.push(new String[] {"umount", mount.toString()});
        return mount;
    }

    private static List<String> open(Path file, String... jvmOptions) throws Exception {
        try (Child child = Child.start(Arrays.asList(jvmOptions), Opener.class, file.toString())) {
            return child.rest();
        }
    }

    private static String last(List<String> lines) {
        assertThat(lines).isNotEmpty();
        return lines.get(lines.size() - 1);
    }

    private Path store() throws Exception {
        Path file = folder.resolve("locks.db");
        assertThat(last(open(file))).startsWith("granted");
        return file;
    }

    @Test
    void readOnlyFile() throws Exception {
        Path file = store();
        forbidWrites(file, "r--r--r--");
        assertThat(last(open(file))).startsWith("REFUSED false").contains("let this user write the file " + file);
    }

    @Test
    void readOnlyFolder() throws Exception {
        Path inner = Files.createDirectory(folder.resolve("inner"));
        forbidWrites(inner, "r-xr-xr-x");
        assertThat(last(open(inner.resolve("locks.db"))))
                .startsWith("REFUSED false")
                .contains("and its folder");
        assertThat(inner).isEmptyDirectory();
    }

    /** The file may be written, but its companions cannot be made. */
    @Test
    void readOnlyFolderOfAFile() throws Exception {
        Path file = store();
        forbidWrites(folder, "r-xr-xr-x");
        assertThat(last(open(file))).startsWith("REFUSED false").contains("companions -wal and -shm");
    }

    /** The driver unpacks a native library into the temporary folder, where it must be able to run. */
    @Test
    void temporaryFolderForbidsPrograms() throws Exception {
        Path mount = mount("size=8m,noexec");
        assertThat(last(open(folder.resolve("locks.db"), "-Djava.io.tmpdir=" + mount)))
                .startsWith("REFUSED false")
                .contains("noexec", "-Dorg.sqlite.tmpdir=", mount.toString());
    }

    /** The same message, where no mount is possible: there is no such folder. */
    @Test
    void temporaryFolderIsMissing() throws Exception {
        Path missing = folder.resolve("missing");
        List<String> output = open(folder.resolve("locks.db"), "-Djava.io.tmpdir=" + missing);
        // Without the driver's own log of the same.
        assertThat(output).noneMatch(line -> line.contains("\tat ") || line.contains("SEVERE"));
        assertThat(last(output)).startsWith("REFUSED false").contains("-Dorg.sqlite.tmpdir=", missing.toString());
    }

    /** A file mounted by itself, as into a container, would have a log of its own there. */
    @Test
    void fileIsAMount() throws Exception {
        Path file = store();
        Path mounted = Files.createFile(folder.resolve("mounted.db"));
        assumeTrue(
                run("mount", "--bind", file.toString(), mounted.toString()),
                "no right to mount; another test covers the reading of the list of mounts");
        undo.push(new String[] {"umount", mounted.toString()});
        assertThat(last(open(mounted))).startsWith("REFUSED false").contains("mount the folder");
    }

    /** A disk that is full when the store is made, and one that fills up later. */
    @Test
    void fullDisk() throws Exception {
        Path mount = mount("size=128k");
        Path file = mount.resolve("locks.db");
        Path ballast = mount.resolve("ballast");
        fill(ballast);
        String refusal = last(open(file));
        assertThat(refusal).startsWith("REFUSED false");
        assertThat(refusal).containsAnyOf("make room on the disk of " + mount, "full or broken disk under " + mount);
        Files.delete(ballast);
        for (String companion : List.of("", "-wal", "-shm")) {
            Files.deleteIfExists(Path.of(file + companion));
        }
        assertThat(last(open(file))).startsWith("granted");
        fill(ballast);
        assertThat(last(open(file))).startsWith("REFUSED").contains(mount.toString());
        Files.delete(ballast);
        assertThat(last(open(file))).startsWith("granted");
    }

    private static void fill(Path ballast) throws IOException {
        byte[] page = "x".repeat(4096).getBytes(StandardCharsets.US_ASCII);
        try (var out = Files.newOutputStream(ballast)) {
            while (true) {
                out.write(page);
            }
        } catch (IOException e) {
            // Full.
        }
    }
}
