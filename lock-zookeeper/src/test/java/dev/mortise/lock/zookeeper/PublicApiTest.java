package dev.mortise.lock.zookeeper;

import dev.mortise.lock.PublicApi;
import java.io.IOException;
import org.junit.jupiter.api.Test;

class PublicApiTest {

    /** No public type or member comes, goes or changes without its line in {@code public-api.txt}. */
    @Test
    void isReviewed() throws IOException {
        PublicApi.assertReviewed(ZooKeeperProvider.class);
    }
}
