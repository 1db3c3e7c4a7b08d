package dev.mortise.lock.jdbc;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Providers;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.spi.StoreUri;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Takes locks and keeps them, telling of each renewal, until it is killed or has lost them all; then tells what is left. */
final class AdvisoryHolder {
    private AdvisoryHolder() {}

    /** Arguments: the store, its options with commas between, the lease in milliseconds, the names. */
    public static void main(String[] arguments) throws InterruptedException {
        Map<String, String> options = new HashMap<>();
        for (String option : arguments[1].split(",", -1)) {
            String[] parts = option.split("=", 2);
            options.put(parts[0], parts[1]);
        }
        Duration lease = Duration.ofMillis(Long.parseLong(arguments[2]));
        LockBackend client = opened(StoreUri.parse(arguments[0], options));
        List<Grant> all = taken(client, List.of(arguments).subList(3, arguments.length), lease);
        all.forEach(grant -> say("GRANT " + grant.name() + " " + grant.token() + " " + end(grant)));
        List<Grant> live = all;
        while (!live.isEmpty()) {
            TimeUnit.MILLISECONDS.sleep(lease.toMillis() / 4);
            List<Grant> held = new ArrayList<>();
            try {
                Renewal renewal = client.renew(live);
                for (Grant grant : renewal.live()) {
                    say("RENEW " + grant.name() + " " + grant.token() + " " + end(grant));
                }
                held.addAll(renewal.live());
                for (Grant grant : live) {
                    boolean answered =
                            renewal.live().stream().anyMatch(each -> each.name().equals(grant.name()))
                                    || renewal.ended().contains(grant);
                    if (!answered && System.nanoTime() - end(grant) < 0) {
                        held.add(grant);
                    }
                }
            } catch (LockStoreException e) {
                live.stream()
                        .filter(grant -> System.nanoTime() - end(grant) < 0)
                        .forEach(held::add);
            }
            live = held;
        }
        for (Grant grant : all) {
            boolean released = true;
            for (int i = 0; i < 50; i++) {
                try {
                    released = client.release(grant.claim());
                    break;
                } catch (LockStoreException e) {
                    TimeUnit.MILLISECONDS.sleep(20);
                }
            }
            say("LOST " + grant.name() + " " + released);
        }
        client.close();
    }

    /** A busy machine may take longer than a call may to load what a first connection needs. */
    private static LockBackend opened(StoreUri uri) {
        while (true) {
            try {
                return Providers.find()
                        .open(uri, List.of(), BackendContext.of(System::nanoTime, Duration.ofSeconds(2)));
            } catch (LockStoreException e) {
                say(String.valueOf(e.getMessage()));
            }
        }
    }

    /** Held and renewed once; a busy machine may take longer than a lease to load what a first renewal needs. */
    private static List<Grant> taken(LockBackend client, List<String> names, Duration lease)
            throws InterruptedException {
        for (int i = 0; ; i++) {
            List<Claim> claims = new ArrayList<>();
            List<Grant> all = new ArrayList<>();
            try {
                for (String name : names) {
                    Claim claim =
                            Claim.of(name, name + "~" + ProcessHandle.current().pid() + "." + i, lease);
                    claims.add(claim);
                    client.acquire(claim, Duration.ofSeconds(10)).grant().ifPresent(all::add);
                }
                List<Grant> live = client.renew(all).live();
                if (live.size() == names.size()) {
                    return live;
                }
            } catch (LockStoreException e) {
                // Again.
            }
            for (Claim claim : claims) {
                try {
                    boolean unused = client.release(claim);
                } catch (LockStoreException e) {
                    // It ends by itself.
                }
            }
        }
    }

    private static long end(Grant grant) {
        return grant.since() + grant.lease().toNanos();
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
