package dev.mortise.lock.jdbc;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.spi.Grant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/** Who held what, from when until when by his own lower bound, in the machine's monotonic time. Thread-safe. */
final class History {
    private final List<Hold> holds = new ArrayList<>();

    /** One grant, from its arrival until its lease's end or the moment before its release was sent. */
    static final class Hold {
        final String name;
        final long token;
        final long from;
        private volatile long until;

        Hold(String name, long token, long from, long until) {
            this.name = name;
            this.token = token;
            this.from = from;
            this.until = until;
        }

        void renewed(Grant grant) {
            until = grant.since() + grant.lease().toNanos();
        }

        void renewed(long until) {
            this.until = until;
        }

        void endsBefore(long nanoTime) {
            until = Math.min(until, nanoTime);
        }

        @Override
        public String toString() {
            return name + " token " + token + " " + from + ".." + until;
        }
    }

    Hold begins(Grant grant) {
        return begins(
                grant.name(),
                grant.token(),
                System.nanoTime(),
                grant.since() + grant.lease().toNanos());
    }

    synchronized Hold begins(String name, long token, long from, long until) {
        Hold hold = new Hold(name, token, from, until);
        holds.add(hold);
        return hold;
    }

    synchronized int size() {
        return holds.size();
    }

    /** By token, which is unique, each hold of a name begins after the one before it has ended. */
    synchronized void check() {
        Map<String, List<Hold>> byName =
                holds.stream().collect(Collectors.groupingBy(hold -> hold.name, TreeMap::new, Collectors.toList()));
        byName.forEach((name, all) -> {
            all.sort(Comparator.comparingLong(hold -> hold.token));
            for (int i = 1; i < all.size(); i++) {
                Hold before = all.get(i - 1);
                Hold after = all.get(i);
                assertThat(after.token).as("tokens of %s and %s", before, after).isGreaterThan(before.token);
                if (before.until > before.from) {
                    assertThat(after.from).as("%s overlaps %s", before, after).isGreaterThanOrEqualTo(before.until);
                }
            }
        });
    }
}
