package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Providers;
import dev.mortise.lock.spi.StoreUri;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;

/** Takes, renews and releases for ever, and tells of each step on standard output, until it is killed. */
final class Contender {
    private Contender() {}

    /** Arguments: a word for the owner ids and the seed, number of names, the store, its options. */
    public static void main(String[] arguments) throws InterruptedException {
        Random random = new Random(arguments[0].hashCode());
        Map<String, String> options = new HashMap<>();
        for (String option : List.of(arguments).subList(3, arguments.length)) {
            String[] parts = option.split("=", 2);
            options.put(parts[0], parts[1]);
        }
        LockBackend client = Providers.find()
                .open(
                        StoreUri.parse(arguments[2], options),
                        List.of(),
                        BackendContext.of(System::nanoTime, Duration.ofSeconds(20)));
        int names = Integer.parseInt(arguments[1]);
        say("READY");
        for (int i = 0; ; i++) {
            Claim claim = Claim.of(
                    "n" + random.nextInt(names), arguments[0] + "~" + i, Duration.ofMillis(150 + random.nextInt(150)));
            Optional<Grant> granted = client.acquire(claim, Duration.ZERO).grant();
            if (granted.isEmpty()) {
                continue;
            }
            Grant grant = granted.get();
            // The monotonic clock of the machine, which its processes share.
            say("GRANT " + grant.name() + " " + grant.token() + " " + System.nanoTime() + " " + end(grant));
            for (int renewals = random.nextInt(4); renewals > 0; renewals--) {
                List<Grant> live = client.renew(List.of(grant)).live();
                if (live.isEmpty()) {
                    break;
                }
                grant = live.get(0);
                say("RENEW " + grant.name() + " " + grant.token() + " " + end(grant));
            }
            if (random.nextInt(4) > 0) {
                say("RELEASE " + grant.name() + " " + grant.token() + " " + System.nanoTime());
                client.release(grant.claim());
            }
        }
    }

    private static long end(Grant grant) {
        return grant.since() + grant.lease().toNanos();
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
