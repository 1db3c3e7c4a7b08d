package dev.mortise.lock.cli;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The arguments as bytes. The JVM decodes them by the locale and puts a question mark for what does not fit: in the
 * locale of a cron job all names of one length beyond ASCII would be one lock, and another lock than the same name has
 * in a terminal. Names are UTF-8 here, whatever the locale, and the command gets its arguments byte by byte.
 */
final class Arguments {
    private static final byte[][] NONE = {};

    private final String[] decoded;
    private final byte[][] raw;

    private Arguments(String[] decoded, byte[][] raw) {
        this.decoded = decoded;
        this.raw = raw;
    }

    static Arguments of(String[] decoded) {
        return new Arguments(decoded, isPlain(decoded) ? NONE : ofThisProcess(decoded));
    }

    static Arguments of(String[] decoded, byte[][] raw) {
        return new Arguments(decoded, raw);
    }

    private static boolean isPlain(String[] arguments) {
        for (String argument : arguments) {
            if (argument.indexOf('?') >= 0 || !isAscii(argument)) {
                return false;
            }
        }
        return true;
    }

    static boolean isAscii(String text) {
        for (int i = 0; i < text.length(); i++) {
            if (text.charAt(i) > 0x7f) {
                return false;
            }
        }
        return true;
    }

    /** The last arguments of this process; none if they are not those that {@code main} was given. */
    private static byte[][] ofThisProcess(String[] decoded) {
        byte[] line;
        try {
            line = Files.readAllBytes(Path.of("/proc/self/cmdline"));
        } catch (IOException e) {
            return NONE;
        }
        List<byte[]> all = new ArrayList<>();
        int start = 0;
        for (int i = 0; i < line.length; i++) {
            if (line[i] == 0) {
                all.add(Arrays.copyOfRange(line, start, i));
                start = i + 1;
            }
        }
        if (all.size() <= decoded.length) {
            return NONE;
        }
        byte[][] own = all.subList(all.size() - decoded.length, all.size()).toArray(NONE);
        for (int i = 0; i < own.length; i++) {
            String text = new String(own[i], StandardCharsets.ISO_8859_1);
            if (isAscii(text) && !text.equals(decoded[i])) {
                return NONE;
            }
        }
        return own;
    }

    int count() {
        return decoded.length;
    }

    boolean isDashes(int index) {
        return index < decoded.length && decoded[index].equals("--");
    }

    /** Where {@code --} first stands; -1 if nowhere. */
    int indexOfDashes() {
        for (int i = 0; i < decoded.length; i++) {
            if (isDashes(i)) {
                return i;
            }
        }
        return -1;
    }

    String text(int index) throws Failure {
        if (raw.length == 0) {
            return decoded[index];
        }
        try {
            return StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(ByteBuffer.wrap(raw[index]))
                    .toString();
        } catch (CharacterCodingException e) {
            // Not shown: it can be the part of the line with a password.
            throw new Failure(
                    Failure.USAGE,
                    "argument " + (index + 1) + " is not UTF-8; names, stores and options must be, in every locale");
        }
    }

    /** The arguments between, as texts. */
    String[] texts(int from, int to) throws Failure {
        String[] texts = new String[to - from];
        for (int i = from; i < to; i++) {
            texts[i - from] = text(i);
        }
        return texts;
    }

    /** Whether one of the arguments from here on has bytes that the JVM may not pass on as they are. */
    boolean isBeyondAscii(int from) {
        for (int i = from; i < decoded.length; i++) {
            if (!isAscii(new String(bytes(i), StandardCharsets.ISO_8859_1))) {
                return true;
            }
        }
        return false;
    }

    /** The arguments from here on, as {@code command.sh} takes them. */
    List<String> command(int from, boolean coded) {
        List<String> command = new ArrayList<>();
        for (int i = from; i < decoded.length; i++) {
            command.add(coded ? code(bytes(i)) : new String(bytes(i), StandardCharsets.US_ASCII));
        }
        return command;
    }

    private byte[] bytes(int index) {
        return raw.length == 0 ? decoded[index].getBytes(StandardCharsets.UTF_8) : raw[index];
    }

    /** In ASCII, for the {@code %b} of printf. */
    static String code(byte[] bytes) {
        StringBuilder out = new StringBuilder(bytes.length + 16);
        for (byte b : bytes) {
            if (b == '\\') {
                out.append("\\\\");
            } else if (b >= 0) {
                out.append((char) b);
            } else {
                out.append("\\0").append(Integer.toOctalString(b & 0xff));
            }
        }
        return out.toString();
    }

    static String code(String text) {
        return code(text.getBytes(StandardCharsets.UTF_8));
    }
}
