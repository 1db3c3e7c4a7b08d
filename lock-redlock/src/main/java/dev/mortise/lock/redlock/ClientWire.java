package dev.mortise.lock.redlock;

import dev.mortise.lock.redlock.Node.Silence;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisNoScriptException;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

/**
 * The way to one server through the application's own Redisson client. Its pool uses any connection for any call, so that
 * the release of an acquire without an answer can pass it, which then stays for a lease.
 */
final class ClientWire implements Wire {
    private final String name;
    private final RedissonClient client;
    private final RScript scripts;

    /**
     * Checks how the client is configured, without any I/O.
     *
     * @throws IllegalArgumentException if it is not one of a single server, or repeats commands by itself
     */
    ClientWire(int number, RedissonClient client) {
        Config config = client.getConfig();
        if (!config.isSingleConfig()) {
            throw new IllegalArgumentException("client " + number
                    + " is not configured for a single server (useSingleServer); Redlock needs independent servers");
        }
        SingleServerConfig single = config.useSingleServer();
        if (single.getRetryAttempts() != 0) {
            throw new IllegalArgumentException("client " + number + " has retryAttempts " + single.getRetryAttempts()
                    + ": it would repeat commands whose outcome is unknown; set it to 0");
        }
        String address = single.getAddress();
        // Of redis://user:password@host:port only the end is shown.
        name = address.substring(Math.max(address.lastIndexOf('@'), address.lastIndexOf('/')) + 1);
        this.client = client;
        scripts = client.getScript(StringCodec.INSTANCE);
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public CompletableFuture<List<Object>> run(
            Script script, boolean whole, List<String> keys, List<String> arguments) {
        CompletableFuture<List<Object>> result = new CompletableFuture<>();
        if (client.isShutdown()) {
            result.completeExceptionally(new Silence("the Redisson client is shut down", false, null));
            return result;
        }
        List<Object> names = List.copyOf(keys);
        Object[] values = arguments.toArray();
        try {
            CompletableFuture<List<Object>> unused = (whole
                            ? scripts.<List<Object>>evalAsync(
                                    RScript.Mode.READ_WRITE, script.text(), RScript.ReturnType.LIST, names, values)
                            : scripts.<List<Object>>evalShaAsync(
                                    RScript.Mode.READ_WRITE, script.sha(), RScript.ReturnType.LIST, names, values))
                    .toCompletableFuture()
                    .whenComplete((list, failure) -> {
                        if (list != null) {
                            result.complete(list);
                        } else if (failure != null && Protocol.cause(failure) instanceof RedisNoScriptException) {
                            result.completeExceptionally(new NoScript());
                        } else {
                            result.completeExceptionally(new Silence(
                                    failure == null ? "an empty answer" : Link.reason(failure), true, null));
                        }
                    });
        } catch (RuntimeException e) {
            result.completeExceptionally(new Silence(Link.reason(e), true, null));
        }
        return result;
    }

    /** The connections are not ours to close. */
    @Override
    public void distrust(String why) {}

    @Override
    public void close() {}
}
