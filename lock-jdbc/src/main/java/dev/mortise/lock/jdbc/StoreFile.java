package dev.mortise.lock.jdbc;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.sql.SQLException;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** The file that an SQLite store lives in, looked at from outside. It is never opened here. */
final class StoreFile {
    /** Locks, or memory mapped from a file, do not reach from one machine or kernel to the other on these. */
    private static final Set<String> NETWORK = Set.of(
            "9p",
            "afpfs",
            "afs",
            "beegfs",
            "ceph",
            "cifs",
            "coda",
            "davfs",
            "drvfs",
            "gfs2",
            "glusterfs",
            "gpfs",
            "lustre",
            "ncpfs",
            "ocfs2",
            "orangefs",
            "panfs",
            "prl_fs",
            "pvfs2",
            "vboxsf",
            "virtiofs",
            "webdav",
            "wekafs");

    /** The type of the file system that holds a path, such as {@code ext4}. */
    interface FileSystems {
        String type(Path path) throws IOException;
    }

    private final Path path;
    private final FileSystems fileSystems;

    StoreFile(Path path, FileSystems fileSystems) {
        this.path = path;
        this.fileSystems = fileSystems;
    }

    static String fileSystem(Path path) throws IOException {
        return Files.getFileStore(path).type();
    }

    Path folder() {
        Path parent = path.getParent();
        return parent == null ? path : parent;
    }

    /** The path without symbolic links; the file itself need not exist, its folder must. */
    Path real() throws SQLException {
        try {
            return Files.exists(path)
                    ? path.toRealPath()
                    : folder().toRealPath().resolve(String.valueOf(path.getFileName()));
        } catch (IOException e) {
            throw new Refusal("the file cannot be looked at: " + e, "let this user enter " + folder(), e);
        }
    }

    /** Refuses what SQLite would not, or not clearly. */
    void requireUsable(boolean again) throws SQLException {
        try {
            if (!Files.readAttributes(folder(), BasicFileAttributes.class).isDirectory()) {
                throw new Refusal(folder() + " is no folder", "name a file in a folder", null);
            }
        } catch (NoSuchFileException e) {
            throw new Refusal("the folder " + folder() + " does not exist", "make it: mkdir -p " + quoted(folder()), e);
        } catch (IOException e) {
            throw new Refusal(
                    "the folder " + folder() + " cannot be entered: " + e, "let this user enter and write it", e);
        }
        if (Files.isDirectory(path)) {
            throw new Refusal(path + " is a folder", "name a file in it", null);
        }
        boolean leftLog = size(Path.of(path + "-wal")) > 0;
        boolean gone = size(path) <= 0;
        if (gone && again) {
            throw new Refusal(
                    "the file is gone, which was there before",
                    "put " + path + " back; or open the store anew, which makes an empty one",
                    null);
        }
        if (gone && leftLog) {
            // SQLite would delete that log, and with it the last commits of a file that was only moved away.
            throw new Refusal(
                    "the file is missing or empty, but its companion -wal is there",
                    "put " + path + " back where it was; or remove " + path + "-wal if its data is not wanted",
                    null);
        }
        try {
            String type = fileSystems.type(Files.exists(path) ? path : folder());
            if (isNetwork(type)) {
                throw new Refusal(
                        "it is on a file system of type " + type + ", where machines do not see each other's locks",
                        "use a file on a local disk, or a store with a server for several machines",
                        null);
            }
        } catch (IOException e) {
            throw new Refusal("the type of its file system cannot be told: " + e, "look at the disk", e);
        }
        requireOneName();
        Path mounts = Path.of("/proc/self/mountinfo");
        if (Files.exists(mounts) && isMountPoint(mounts, real())) {
            // As with two names: the companions lie beside the mount here, and beside the original elsewhere.
            throw new Refusal(
                    "the file itself is a mount (as of a container), so that its companions -wal and -shm are not shared"
                            + " with it",
                    "mount the folder that it is in",
                    null);
        }
    }

    static boolean isMountPoint(Path mountinfo, Path real) {
        // In a line's fifth word, a space, a tab, a line feed and a backslash are written in octal.
        String name = real.toString()
                .replace("\\", "\\134")
                .replace(" ", "\\040")
                .replace("\t", "\\011")
                .replace("\n", "\\012");
        try {
            for (String line : Files.readAllLines(mountinfo, StandardCharsets.ISO_8859_1)) {
                String[] words = line.split(" ", 6);
                if (words.length > 4 && bytes(words[4]).equals(name)) {
                    return true;
                }
            }
            return false;
        } catch (IOException e) {
            // Not to be told; then it is taken for what it nearly always is.
            return false;
        }
    }

    /** Names in there are bytes; nearly always of UTF-8. */
    private static String bytes(String latin1) {
        return new String(latin1.getBytes(StandardCharsets.ISO_8859_1), StandardCharsets.UTF_8);
    }

    private static String quoted(Path path) {
        return "'" + path.toString().replace("'", "'\\''") + "'";
    }

    static boolean isNetwork(String type) {
        String lower = type.toLowerCase(Locale.ROOT);
        return NETWORK.contains(lower)
                || lower.startsWith("nfs")
                || lower.startsWith("smb")
                || lower.startsWith("fuse.")
                || lower.startsWith("macfuse")
                || lower.startsWith("osxfuse");
    }

    /** Two names of one file have two logs: users of the one name would not see the locks of the other. */
    void requireOneName() throws SQLException {
        try {
            if (unix(path)
                    && Files.exists(path)
                    && Files.getAttribute(path, "unix:nlink") instanceof Integer links
                    && links > 1) {
                throw new Refusal(
                        "the file has " + links + " names (hard links), and locks under one are not seen under another",
                        "remove the other names, or name a file that has one",
                        null);
            }
        } catch (IOException e) {
            throw new Refusal("the file cannot be looked at: " + e, "leave " + path + " in its place", e);
        }
    }

    /** What tells this file from every other that exists at the same time; null if there is none of this name. */
    @Nullable
    String identity() throws SQLException {
        return identity(path.toString());
    }

    static @Nullable String identity(String name) throws SQLException {
        Path path = Path.of(name);
        try {
            if (unix(path)) {
                Map<String, Object> attributes = Files.readAttributes(path, "unix:dev,ino");
                return attributes.get("dev") + ":" + attributes.get("ino");
            }
            // Elsewhere an open database cannot be deleted or moved: that it is there is enough.
            Files.readAttributes(path, BasicFileAttributes.class);
            return "there";
        } catch (NoSuchFileException e) {
            return null;
        } catch (IOException e) {
            throw new Refusal("the file cannot be looked at: " + e, "leave " + path + " in its place", e);
        }
    }

    private static boolean unix(Path path) {
        return path.getFileSystem().supportedFileAttributeViews().contains("unix");
    }

    private static long size(Path path) {
        try {
            return Files.size(path);
        } catch (IOException e) {
            return -1;
        }
    }

    @Override
    public String toString() {
        return path.toString();
    }
}
