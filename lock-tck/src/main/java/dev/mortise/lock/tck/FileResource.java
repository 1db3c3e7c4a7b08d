package dev.mortise.lock.tck;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HexFormat;
import java.util.OptionalLong;

/**
 * A file for each lock, with the largest token seen and the number. It is for processes that are killed, and not for a
 * machine that is, so that nothing waits for the disk.
 */
class FileResource implements ProtectedResource {
    private final Path folder;

    FileResource(String folder) {
        this.folder = Path.of(folder);
    }

    boolean admits(long token, long largest) {
        return token >= largest;
    }

    @Override
    public OptionalLong read(String name, long token) throws IOException {
        long seen = access(name, token, 0);
        return seen < 0 ? OptionalLong.empty() : OptionalLong.of(seen);
    }

    @Override
    public boolean write(String name, long token, long value) throws IOException {
        return access(name, token, value) >= 0;
    }

    /**
     * Reads, and writes if there is something to write.
     *
     * @return what was there; negative if it was refused
     */
    private synchronized long access(String name, long token, long value) throws IOException {
        Path path = folder.resolve("resource-" + HexFormat.of().formatHex(name.getBytes(StandardCharsets.UTF_8)));
        try (FileChannel file = FileChannel.open(
                        path, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
                FileLock alone = file.lock()) {
            ByteBuffer content = ByteBuffer.allocate(2 * Long.BYTES);
            boolean empty = file.read(content, 0) < content.capacity();
            long largest = empty ? 0 : content.getLong(0);
            long before = empty ? 0 : content.getLong(Long.BYTES);
            if (!admits(token, largest)) {
                return -1;
            }
            // In one call: whoever is killed has made it or has not.
            content.clear();
            content.putLong(Math.max(token, largest)).putLong(value > 0 ? value : before);
            file.write(content.flip(), 0);
            return before;
        }
    }
}
