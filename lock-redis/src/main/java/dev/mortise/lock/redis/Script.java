package dev.mortise.lock.redis;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Protocol;

/** The steps that the server takes in one go: Lua, in the {@code .lua} files beside this class, which say what they do. */
enum Script {
    ACQUIRE,
    RENEW,
    RELEASE,
    ADOPT,
    HOLDER;

    private static final Pattern LINE = Pattern.compile("user_script:([1-9]\\d{0,5})");
    private static final Pattern COMMAND = Pattern.compile("redis\\.p?call\\('([A-Z]+)'");

    private final String text;
    private final String digest;

    Script() {
        String file = name().toLowerCase(Locale.ROOT) + ".lua";
        try (InputStream in = Script.class.getResourceAsStream(file)) {
            byte[] bytes = Objects.requireNonNull(in, file).readAllBytes();
            text = new String(bytes, StandardCharsets.UTF_8);
            digest = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-1").digest(bytes));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Which command an error is about that names a script and a line of it, for people: {@code " (get)"}; or nothing. */
    static String commandOf(String error) {
        Matcher line = LINE.matcher(error);
        for (Script each : values()) {
            if (error.contains(each.digest) && line.find()) {
                Matcher command = COMMAND.matcher(each.text
                        .lines()
                        .skip(Long.parseLong(line.group(1)) - 1)
                        .findFirst()
                        .orElse(""));
                return command.find() ? " (" + command.group(1).toLowerCase(Locale.ROOT) + ")" : "";
            }
        }
        return "";
    }

    /** A run of it by its digest, which is short, and which a server that does not have it answers with NOSCRIPT. */
    CommandArguments run(List<String> keys, List<String> arguments) {
        return request(Protocol.Command.EVALSHA, digest, keys, arguments);
    }

    /** The same with its text, after which the server has it. */
    CommandArguments runByText(List<String> keys, List<String> arguments) {
        return request(Protocol.Command.EVAL, text, keys, arguments);
    }

    private static CommandArguments request(
            Protocol.Command command, String script, List<String> keys, List<String> arguments) {
        CommandArguments request = new CommandArguments(command).add(script).add(keys.size());
        keys.forEach(request::add);
        arguments.forEach(request::add);
        return request;
    }
}
