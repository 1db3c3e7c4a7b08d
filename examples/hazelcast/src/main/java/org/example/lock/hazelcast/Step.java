package org.example.lock.hazelcast;

import com.hazelcast.config.EvictionPolicy;
import com.hazelcast.config.InMemoryFormat;
import com.hazelcast.config.MapConfig;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.HazelcastInstanceAware;
import com.hazelcast.core.ReadOnly;
import com.hazelcast.map.EntryProcessor;
import com.hazelcast.query.Predicate;
import com.hazelcast.spi.properties.ClusterProperty;
import java.util.Map;

/**
 * One atomic step on the row of a name. It is carried out by the member that has the row, on the one thread that may touch
 * it; members that keep a copy are then told what became of it. They do not repeat the step: by their clocks a lease that has
 * just ended may still be live, and their copy would be another lock.
 *
 * @param <R> the answer
 */
abstract class Step<R> implements EntryProcessor<String, Row, R> {
    private static final long serialVersionUID = 1;

    private transient Copy written;

    abstract R take(Map.Entry<String, Row> entry);

    @Override
    public final R process(Map.Entry<String, Row> entry) {
        written = null;
        return take(entry);
    }

    /** Null, as it is when nothing was written, means none. */
    @Override
    public final EntryProcessor<String, Row, R> getBackupProcessor() {
        @SuppressWarnings("unchecked") // Nobody reads its answer.
        EntryProcessor<String, Row, R> copy = (EntryProcessor<String, Row, R>) written;
        return copy;
    }

    static Row row(Map.Entry<String, Row> entry) {
        return entry.getValue() == null ? Row.NEW : entry.getValue();
    }

    final void write(Map.Entry<String, Row> entry, String owner, long token, long lease) {
        written = new Copy(owner, token, lease);
        written.process(entry);
    }

    /** Writes what the step has written, with a lease that counts from here. */
    private record Copy(String owner, long token, long lease) implements EntryProcessor<String, Row, Void> {
        @Override
        public Void process(Map.Entry<String, Row> entry) {
            entry.setValue(Row.from(owner, token, lease));
            return null;
        }
    }

    /** Answers the row as it then is: of this owner, or of the one that holds it. */
    static final class Acquire extends Step<Row> {
        private static final long serialVersionUID = 1;
        private final String owner;
        private final long lease;

        Acquire(String owner, long lease) {
            this.owner = owner;
            this.lease = lease;
        }

        @Override
        Row take(Map.Entry<String, Row> entry) {
            Row row = row(entry);
            if (row.heldBy(owner)) {
                write(entry, owner, row.token(), lease);
            } else if (!row.live()) {
                write(entry, owner, row.token() + 1, lease);
            }
            return row(entry);
        }
    }

    /** Answers whether this grant is live. */
    static final class Renew extends Step<Boolean> {
        private static final long serialVersionUID = 1;
        private final String owner;
        private final long token;
        private final long lease;

        Renew(String owner, long token, long lease) {
            this.owner = owner;
            this.token = token;
            this.lease = lease;
        }

        @Override
        Boolean take(Map.Entry<String, Row> entry) {
            Row row = row(entry);
            if (!row.heldBy(owner) || row.token() != token) {
                return false;
            }
            write(entry, owner, token, lease);
            return true;
        }
    }

    /** Answers whether it ended a live claim. */
    static final class Release extends Step<Boolean> {
        private static final long serialVersionUID = 1;
        private final String owner;

        Release(String owner) {
            this.owner = owner;
        }

        @Override
        Boolean take(Map.Entry<String, Row> entry) {
            Row row = row(entry);
            if (!row.heldBy(owner)) {
                return false;
            }
            write(entry, "", row.token(), 0);
            return true;
        }
    }

    /** Answers the heir's row, or null if it inherits nothing. */
    static final class Adopt extends Step<Row> {
        private static final long serialVersionUID = 1;
        private final String owner;
        private final long token;
        private final String heir;
        private final long lease;

        Adopt(String owner, long token, String heir, long lease) {
            this.owner = owner;
            this.token = token;
            this.heir = heir;
            this.lease = lease;
        }

        @Override
        Row take(Map.Entry<String, Row> entry) {
            Row row = row(entry);
            if (row.heldBy(heir)) {
                write(entry, heir, row.token(), lease);
            } else if (row.heldBy(owner) && row.token() == token) {
                write(entry, heir, token + 1, lease);
            } else {
                return null;
            }
            return row(entry);
        }
    }

    /** Answers the row of a live claim, or null. */
    static final class Look extends Step<Row> implements ReadOnly {
        private static final long serialVersionUID = 1;

        @Override
        Row take(Map.Entry<String, Row> entry) {
            return row(entry).live() ? row(entry) : null;
        }
    }

    /** Answers what is wrong with the map's settings on the member, or an empty text. */
    static final class Check extends Step<String> implements ReadOnly, HazelcastInstanceAware {
        private static final long serialVersionUID = 1;
        private final String map;
        private static final String CONFIRMED = ClusterProperty.FAIL_ON_INDETERMINATE_OPERATION_STATE.getName();
        private transient HazelcastInstance member;

        Check(String map) {
            this.map = map;
        }

        @Override
        public void setHazelcastInstance(HazelcastInstance instance) {
            member = instance;
        }

        @Override
        String take(Map.Entry<String, Row> entry) {
            MapConfig config = member.getConfig().findMapConfig(map);
            if (config.getInMemoryFormat() != InMemoryFormat.OBJECT) {
                return "its in-memory-format is " + config.getInMemoryFormat() + ", and must be OBJECT: a row that is"
                        + " kept as bytes would start its lease anew at each look";
            }
            if (config.getBackupCount() < 1) {
                return "its backup-count is 0, and must be 1 at least: a member that ends would take locks along";
            }
            if (config.getEvictionConfig().getEvictionPolicy() != EvictionPolicy.NONE
                    || config.getTimeToLiveSeconds() > 0
                    || config.getMaxIdleSeconds() > 0) {
                return "it evicts entries (eviction, time-to-live-seconds or max-idle-seconds), and must not: a"
                        + " token would be given twice";
            }
            if (!"true".equals(member.getConfig().getProperty(CONFIRMED))) {
                return "the member's property " + CONFIRMED + " is not true: what the copies have not confirmed would be"
                        + " answered with yes";
            }
            return "";
        }
    }

    /** Of the rows that are written, those of locks that became free. */
    record Freed() implements Predicate<String, Row> {
        @Override
        public boolean apply(Map.Entry<String, Row> entry) {
            return entry.getValue().owner().isEmpty();
        }
    }
}
