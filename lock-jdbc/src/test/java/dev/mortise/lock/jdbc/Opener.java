package dev.mortise.lock.jdbc;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
import java.time.Duration;
import java.util.Map;

/** Opens the store at the given path, takes one lock, and says what came of it. */
final class Opener {
    private Opener() {}

    public static void main(String[] arguments) throws InterruptedException {
        try {
            LockBackend client = new JdbcProvider()
                    .open(
                            StoreUri.parse("jdbc:sqlite:" + arguments[0], Map.of()),
                            BackendContext.of(System::nanoTime, Duration.ofSeconds(3)));
            try {
                System.out.println(client.acquire(Claim.of("n", "o~1", Duration.ofSeconds(1)), Duration.ZERO));
            } finally {
                client.close();
            }
        } catch (LockStoreException e) {
            System.out.println("REFUSED " + e.mayHaveTakenEffect() + " " + e.getMessage());
        }
    }
}
