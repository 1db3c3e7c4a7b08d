package dev.mortise.lock.zookeeper;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.zookeeper.common.PathUtils;
import org.junit.jupiter.api.Test;

class PathsTest {
    private static final Paths PATHS = new Paths("/app");

    /** No name leads out of its place, and no two lead to the same. */
    @Test
    void namesHavePlacesOfTheirOwn() {
        Map<String, String> places = new HashMap<>();
        for (String name : List.of(
                "x",
                "X",
                "x/0",
                "x%2F0",
                "x/",
                "/",
                "//",
                ".",
                "..",
                "../x",
                "%2E",
                "%2E.",
                "x.",
                "x ",
                " ",
                "a:0000000001",
                "lock-0000000000",
                "_c_1",
                "zookeeper",
                "\u0000",
                "\uD83D\uDD12",
                "é",
                "e\u0301",
                "%",
                "%25")) {
            String path = PATHS.container(name);
            PathUtils.validatePath(path);
            assertThat(path).startsWith("/app/mortise/");
            assertThat(path.substring("/app/mortise/".length())).isNotEmpty().doesNotContain("/");
            assertThat(places.put(path, name)).isNull();
        }
        PathUtils.validatePath(PATHS.container("\u00ff".repeat(256)));
    }

    @Test
    void ownersAreReadBack() {
        for (String owner : List.of("me~1", "a/b", "%2F", ".", "a:1:2", "%25/")) {
            String node = Paths.last(PATHS.prefix("x", owner)) + "0000000042";
            assertThat(Paths.number(node)).isEqualTo(42);
            assertThat(Paths.owner(node)).isEqualTo(owner);
        }
    }

    /** What the server writes after the last number, and what others put there, are no claims. */
    @Test
    void whatIsNoClaimDoesNotCount() {
        List<String> queue =
                List.of("x:0000000007", "y:0000000003", "z", "z:12", "w:-2147483648", "v:0000000005", ":0000000001");
        assertThat(Paths.first(queue)).isEqualTo("y:0000000003");
        assertThat(Paths.before(7, queue)).isEqualTo("v:0000000005");
        assertThat(Paths.before(3, queue)).isNull();
        assertThat(Paths.number("w:-2147483648")).isEqualTo(-1);
        assertThat(Paths.first(List.of("z"))).isNull();
    }
}
