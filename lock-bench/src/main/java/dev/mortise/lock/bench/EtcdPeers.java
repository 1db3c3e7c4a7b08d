package dev.mortise.lock.bench;

import dev.mortise.lock.bench.Session.Door;
import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.KV;
import io.etcd.jetcd.Lease;
import io.etcd.jetcd.Lock;
import io.etcd.jetcd.lease.LeaseKeepAliveResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.CmpTarget;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.DeleteOption;
import io.etcd.jetcd.options.PutOption;
import io.grpc.stub.StreamObserver;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/** The least that does the work on etcd, and jetcd's own lock. */
final class EtcdPeers {
    private static final long LEASE_SECONDS = 30;

    private EtcdPeers() {}

    private static Client connect(List<Integer> ports) {
        return Client.builder().endpoints("http://127.0.0.1:" + ports.get(0)).build();
    }

    private static ByteSequence bytes(String text) {
        return ByteSequence.from(text, StandardCharsets.UTF_8);
    }

    private static long grant(Lease leases) throws Exception {
        return leases.grant(LEASE_SECONDS).get().getID();
    }

    /** From now on. What becomes of it shows in the locks. */
    private static void renew(Lease leases, long lease) {
        leases.keepAlive(lease, new StreamObserver<LeaseKeepAliveResponse>() {
            @Override
            public void onNext(LeaseKeepAliveResponse answer) {}

            @Override
            public void onError(Throwable e) {}

            @Override
            public void onCompleted() {}
        });
    }

    static Session pair(List<Integer> ports) throws Exception {
        Client client = connect(ports);
        KV kv = client.getKVClient();
        long lease = grant(client.getLeaseClient());
        renew(client.getLeaseClient(), lease);
        PutOption leased = PutOption.builder().withLeaseId(lease).build();
        return name -> new Door() {
            private final ByteSequence key = bytes("bare/" + name);
            private final ByteSequence owner = bytes(UUID.randomUUID().toString());

            @Override
            public void acquire() throws Exception {
                while (!kv.txn()
                        .If(new Cmp(key, Cmp.Op.EQUAL, CmpTarget.version(0)))
                        .Then(Op.put(key, owner, leased))
                        .commit()
                        .get()
                        .isSucceeded()) {
                    TimeUnit.MILLISECONDS.sleep(1);
                }
            }

            @Override
            public void release() throws Exception {
                if (!kv.txn()
                        .If(new Cmp(key, Cmp.Op.EQUAL, CmpTarget.value(owner)))
                        .Then(Op.delete(key, DeleteOption.DEFAULT))
                        .commit()
                        .get()
                        .isSucceeded()) {
                    throw new IllegalStateException(
                            "it was not held any more: the lease ended in the middle of the run");
                }
            }
        };
    }

    /** As its documents do it: the lock lives as long as its lease, so each has one. */
    static Session lock(List<Integer> ports) {
        Client client = connect(ports);
        Lease leases = client.getLeaseClient();
        Lock locks = client.getLockClient();
        return new Libraries.Renewable() {
            private boolean renewed;

            @Override
            public void renew() {
                renewed = true;
            }

            @Override
            public Door door(String name) {
                return new Door() {
                    private long lease;
                    private ByteSequence key = ByteSequence.EMPTY;

                    @Override
                    public void acquire() throws Exception {
                        lease = grant(leases);
                        if (renewed) {
                            EtcdPeers.renew(leases, lease);
                        }
                        key = locks.lock(bytes(name), lease).get().getKey();
                    }

                    @Override
                    public void release() throws Exception {
                        locks.unlock(key).get();
                        leases.revoke(lease).get();
                    }
                };
            }
        };
    }

    /** A lease for each thread, and not for all: for one name and one lease, etcd's lock is the same lock. */
    static Session lockWithLeaseKept(List<Integer> ports) {
        Client client = connect(ports);
        Lease leases = client.getLeaseClient();
        Lock locks = client.getLockClient();
        return name -> new Door() {
            private final long lease = grant(leases);
            private ByteSequence key = ByteSequence.EMPTY;

            {
                renew(leases, lease);
            }

            @Override
            public void acquire() throws Exception {
                key = locks.lock(bytes(name), lease).get().getKey();
            }

            @Override
            public void release() throws Exception {
                locks.unlock(key).get();
            }

            @Override
            public void close() throws Exception {
                leases.revoke(lease).get();
            }
        };
    }
}
