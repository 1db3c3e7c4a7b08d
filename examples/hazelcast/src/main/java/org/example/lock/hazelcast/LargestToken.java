package org.example.lock.hazelcast;

import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import com.hazelcast.spi.merge.MergingValue;
import com.hazelcast.spi.merge.SplitBrainMergePolicy;

/**
 * When a cluster that fell apart comes together again, each name keeps the row with the larger token, so that at least from
 * then on tokens grow. Named in the settings of the members' map; see {@link HazelcastLocks#configure}.
 */
public final class LargestToken implements SplitBrainMergePolicy<Object, MergingValue<Object>, Object> {

    /** For Hazelcast. */
    public LargestToken() {}

    @Override
    public Object merge(MergingValue<Object> merging, MergingValue<Object> existing) {
        if (existing == null) {
            return merging.getDeserializedValue();
        }
        Row theirs = (Row) merging.getDeserializedValue();
        Row ours = (Row) existing.getDeserializedValue();
        return theirs.token() > ours.token() ? theirs : ours;
    }

    @Override
    public void writeData(ObjectDataOutput out) {}

    @Override
    public void readData(ObjectDataInput in) {}
}
