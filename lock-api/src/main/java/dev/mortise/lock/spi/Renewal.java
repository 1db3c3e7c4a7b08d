package dev.mortise.lock.spi;

import java.util.Collection;
import java.util.List;

/** The answer to a renewal: which grants are live, and which have ended. A grant in neither is unknown. Immutable. */
public final class Renewal {
    private final List<Grant> live;
    private final List<Grant> ended;

    private Renewal(Collection<Grant> live, Collection<Grant> ended) {
        this.live = List.copyOf(live);
        this.ended = List.copyOf(ended);
    }

    /**
     * An answer.
     *
     * @param live grants made by {@link Grant#renewed}, each live for its full lease from its new {@code since}
     * @param ended grants as they were passed in, with no live claim now or ever
     */
    public static Renewal of(Collection<Grant> live, Collection<Grant> ended) {
        return new Renewal(live, ended);
    }

    public List<Grant> live() {
        return live;
    }

    public List<Grant> ended() {
        return ended;
    }

    @Override
    public String toString() {
        return "live " + live + ", ended " + ended;
    }
}
