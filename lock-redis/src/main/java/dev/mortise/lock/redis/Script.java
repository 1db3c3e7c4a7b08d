package dev.mortise.lock.redis;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Protocol;

/** The steps that the server takes in one go: Lua, in the {@code .lua} files beside this class, which say what they do. */
enum Script {
    ACQUIRE,
    RENEW,
    RELEASE,
    ADOPT,
    HOLDER;

    private final String text;
    private final String digest;

    Script() {
        String file = name().toLowerCase(java.util.Locale.ROOT) + ".lua";
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
