package dev.mortise.lock.etcd;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.Watch;
import io.etcd.jetcd.common.exception.ErrorCode;
import io.etcd.jetcd.common.exception.EtcdException;
import io.etcd.jetcd.kv.DeleteResponse;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.kv.TxnResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.CmpTarget;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.DeleteOption;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.LeaseOption;
import io.etcd.jetcd.options.PutOption;
import io.etcd.jetcd.options.WatchOption;
import io.etcd.jetcd.watch.WatchResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Speaks to etcd through somebody else's jetcd client. What jetcd repeats by itself was not sent, or may be done twice; which
 * server it asks is its own matter.
 */
final class ClientWire implements Wire {
    static final String SHOWN = "etcd by the application's jetcd client";

    private final Client client;
    /** What is under way, by a number: futures are equal to nothing. */
    private final Map<Long, CompletableFuture<?>> open = new ConcurrentHashMap<>();

    private final AtomicLong numbers = new AtomicLong();
    private volatile boolean closed;

    ClientWire(Client client) {
        this.client = client;
    }

    @Override
    public String shown() {
        return SHOWN;
    }

    @Override
    public boolean isClosed() {
        return closed;
    }

    /** The client goes on; what is asked by this is over. */
    @Override
    public void close() {
        closed = true;
        open.values().forEach(each -> each.cancel(false));
    }

    private static ByteSequence bytes(String text) {
        return ByteSequence.from(text, StandardCharsets.UTF_8);
    }

    private static Entry entry(KeyValue kv) {
        return new Entry(
                kv.getKey().toString(StandardCharsets.UTF_8),
                kv.getValue().toString(StandardCharsets.UTF_8),
                kv.getCreateRevision(),
                kv.getLease());
    }

    private static @Nullable Entry first(GetResponse answer) {
        return answer.getKvs().isEmpty() ? null : entry(answer.getKvs().get(0));
    }

    private <T> T call(Supplier<CompletableFuture<T>> request, Limit limit) throws Trouble, InterruptedException {
        if (closed) {
            throw Trouble.closed();
        }
        long number = numbers.incrementAndGet();
        try {
            CompletableFuture<T> future = request.get();
            open.put(number, future);
            if (closed) {
                boolean unused = future.cancel(false);
            }
            return answer(future, limit);
        } catch (EtcdException | IllegalStateException e) {
            // A client that was closed throws so.
            throw trouble(e);
        } finally {
            open.remove(number);
        }
    }

    /** What jetcd answers. */
    static <T> T answer(CompletableFuture<T> future, Limit limit) throws Trouble, InterruptedException {
        try {
            T answer = limit.await(future);
            if (answer == null) {
                boolean unused = future.cancel(true);
                throw Trouble.late(SHOWN, true, null);
            }
            return answer;
        } catch (ExecutionException e) {
            Throwable cause = e.getCause();
            throw trouble(cause == null ? e : cause);
        }
    }

    private static Trouble trouble(Throwable failure) {
        if (failure instanceof java.util.concurrent.CancellationException) {
            return new Trouble("this client of the store was closed", "open another", true, failure);
        }
        Throwable inner = failure;
        if (failure instanceof EtcdException && failure.getCause() != null) {
            inner = failure.getCause();
        }
        String said = String.valueOf(failure.getMessage()).toLowerCase(Locale.ROOT);
        if (said.contains("requested lease not found")) {
            return new LeaseGone(failure);
        }
        return Trouble.of(inner, SHOWN, true, Trouble.Kind.OWN);
    }

    private static GetOption line(Keys keys, GetOption.SortOrder order, int many, long latest) {
        return GetOption.builder()
                .withRange(bytes(keys.end()))
                .withSortField(GetOption.SortTarget.CREATE)
                .withSortOrder(order)
                .withLimit(many)
                .withMaxCreateRevision(latest)
                .build();
    }

    private static Op oldestOp(Keys keys, int many) {
        return Op.get(bytes(keys.start()), line(keys, GetOption.SortOrder.ASCEND, many, 0));
    }

    /** jetcd compares no ranges: whether anybody is there is asked before, and seen again after. */
    @Override
    public Line enter(Keys keys, String owner, String value, long lease, boolean ifFree, Limit limit)
            throws Trouble, InterruptedException {
        String own = keys.of(owner);
        if (ifFree) {
            Entry oldest = oldest(keys, limit);
            if (oldest != null && !oldest.key().equals(own)) {
                Found there = find(List.of(own), limit);
                return new Line(
                        there.entries().isEmpty() ? null : there.entries().get(0), false, oldest, there.term());
            }
        }
        ByteSequence key = bytes(own);
        TxnResponse answer = call(
                () -> client.getKVClient()
                        .txn()
                        .If(new Cmp(key, Cmp.Op.EQUAL, CmpTarget.createRevision(0)))
                        .Then(
                                Op.put(
                                        key,
                                        bytes(value),
                                        PutOption.builder().withLeaseId(lease).build()),
                                Op.get(bytes(keys.start()), line(keys, GetOption.SortOrder.DESCEND, 2, 0)))
                        .Else(Op.get(key, GetOption.DEFAULT), oldestOp(keys, 1))
                        .commit(),
                limit);
        long term = answer.getHeader().getRaftTerm();
        if (answer.isSucceeded()) {
            Entry made = new Entry(own, value, answer.getHeader().getRevision(), lease);
            Entry ahead = null;
            for (KeyValue each : answer.getGetResponses().get(0).getKvs()) {
                if (each.getCreateRevision() < made.created()) {
                    ahead = entry(each);
                }
            }
            return new Line(made, true, ahead, term);
        }
        Entry there = first(answer.getGetResponses().get(0));
        Entry oldest = first(answer.getGetResponses().get(1));
        return new Line(there, false, oldest != null && oldest.key().equals(own) ? null : oldest, term);
    }

    @Override
    public Line look(Keys keys, String owner, long created, Limit limit) throws Trouble, InterruptedException {
        TxnResponse answer = call(
                () -> client.getKVClient()
                        .txn()
                        .Then(
                                Op.get(bytes(keys.of(owner)), GetOption.DEFAULT),
                                Op.get(bytes(keys.start()), line(keys, GetOption.SortOrder.DESCEND, 1, created - 1)))
                        .commit(),
                limit);
        return new Line(
                first(answer.getGetResponses().get(0)),
                false,
                first(answer.getGetResponses().get(1)),
                answer.getHeader().getRaftTerm());
    }

    @Override
    public Left leave(Keys keys, String owner, Limit limit) throws Trouble, InterruptedException {
        TxnResponse answer = call(
                () -> client.getKVClient()
                        .txn()
                        .Then(
                                oldestOp(keys, 2),
                                Op.delete(
                                        bytes(keys.of(owner)),
                                        DeleteOption.builder().withPrevKV(true).build()))
                        .commit(),
                limit);
        DeleteResponse gone = answer.getDeleteResponses().get(0);
        return Left.of(
                gone.getPrevKvs().isEmpty() ? null : entry(gone.getPrevKvs().get(0)),
                answer.getGetResponses().get(0).getKvs().stream()
                        .map(ClientWire::entry)
                        .toList(),
                answer.getHeader().getRaftTerm(),
                false);
    }

    @Override
    public Found find(List<String> keys, Limit limit) throws Trouble, InterruptedException {
        Op[] reads =
                keys.stream().map(key -> Op.get(bytes(key), GetOption.DEFAULT)).toArray(Op[]::new);
        TxnResponse answer = call(() -> client.getKVClient().txn().Then(reads).commit(), limit);
        List<Entry> found = new ArrayList<>();
        answer.getGetResponses().forEach(each -> each.getKvs().forEach(kv -> found.add(entry(kv))));
        return new Found(found, answer.getHeader().getRaftTerm());
    }

    @Override
    public @Nullable Entry oldest(Keys keys, Limit limit) throws Trouble, InterruptedException {
        return first(call(
                () -> client.getKVClient().get(bytes(keys.start()), line(keys, GetOption.SortOrder.ASCEND, 1, 0)),
                limit));
    }

    @Override
    public Granted grant(long seconds, Limit limit) throws Trouble, InterruptedException {
        var answer = call(() -> client.getLeaseClient().grant(seconds), limit);
        return new Granted(answer.getID(), answer.getTTL());
    }

    @Override
    public void revoke(long lease, Limit limit) throws Trouble, InterruptedException {
        try {
            Object unused = call(() -> client.getLeaseClient().revoke(lease), limit);
        } catch (LeaseGone e) {
            return; // It has ended.
        }
    }

    @Override
    public CompletableFuture<?> revokeSoon(long lease) {
        return closed
                ? CompletableFuture.completedFuture(null)
                : client.getLeaseClient().revoke(lease);
    }

    @Override
    public long left(long lease, Limit limit) throws Trouble, InterruptedException {
        return call(() -> client.getLeaseClient().timeToLive(lease, LeaseOption.DEFAULT), limit)
                .getTTL();
    }

    @Override
    public Beat beat(long lease) {
        CompletableFuture<Proof> answer = new CompletableFuture<>();
        long number = numbers.incrementAndGet();
        if (closed) {
            answer.complete(Proof.NONE);
        } else {
            open.put(number, answer);
            try {
                var unused = client.getLeaseClient().keepAliveOnce(lease).whenComplete((alive, failure) -> {
                    open.remove(number);
                    answer.complete(
                            alive != null
                                    ? new Proof(
                                            alive.getTTL(), alive.getHeader().getRaftTerm())
                                    : isNone(failure) ? new Proof(0, 0) : Proof.NONE);
                });
            } catch (EtcdException | IllegalStateException e) {
                open.remove(number);
                answer.complete(Proof.NONE);
            }
        }
        return limit -> {
            try {
                Proof proof = limit.await(answer);
                return proof == null ? Proof.NONE : proof;
            } catch (ExecutionException e) {
                return Proof.NONE; // Closed.
            } finally {
                open.remove(number);
            }
        };
    }

    private static boolean isNone(@Nullable Throwable failure) {
        for (Throwable t = failure; t != null; t = t.getCause()) {
            if (t instanceof EtcdException e && e.getErrorCode() == ErrorCode.NOT_FOUND) {
                return true;
            }
        }
        return false;
    }

    @Override
    public Watching watch(String key) {
        Signal signal = new Signal();
        try {
            signal.watcher = client.getWatchClient()
                    .watch(
                            bytes(key),
                            WatchOption.builder()
                                    .withCreateNotify(true)
                                    .withNoPut(true)
                                    .withRequireLeader(true)
                                    .build(),
                            signal);
        } catch (EtcdException | IllegalStateException e) {
            signal.onError(e);
        }
        return signal;
    }

    private final class Signal implements Watching, Watch.Listener {
        private final CompletableFuture<Boolean> begun = new CompletableFuture<>();
        private final CompletableFuture<Boolean> told = new CompletableFuture<>();
        private volatile boolean broken;
        private volatile Watch.@Nullable Watcher watcher;

        @Override
        public void onNext(WatchResponse response) {
            if (response.getEvents().isEmpty()) {
                begun.complete(true);
            } else {
                told.complete(true);
            }
        }

        @Override
        public void onError(Throwable failure) {
            end();
        }

        @Override
        public void onCompleted() {
            end();
        }

        private void end() {
            broken = true;
            begun.complete(false);
            told.complete(true);
        }

        @Override
        public boolean begun(Limit limit) throws InterruptedException {
            Boolean yes = got(begun, limit);
            return yes != null && yes;
        }

        @Override
        public boolean await(Limit limit) throws InterruptedException {
            long number = numbers.incrementAndGet();
            open.put(number, told);
            try {
                return got(told, limit) != null || closed;
            } finally {
                open.remove(number);
            }
        }

        private @Nullable Boolean got(CompletableFuture<Boolean> future, Limit limit) throws InterruptedException {
            try {
                return limit.await(future);
            } catch (ExecutionException e) {
                broken = true; // Closed.
                return null;
            }
        }

        @Override
        public boolean isBroken() {
            return broken;
        }

        @Override
        public void close() {
            Watch.Watcher known = watcher;
            if (known != null) {
                known.close();
            }
        }
    }

    /** Whether its user may read here; where its servers are, and so of which version, only the client knows. */
    @Override
    public boolean probe(String prefix, Limit limit) throws Trouble, InterruptedException {
        Object unused = call(
                () -> client.getKVClient()
                        .get(
                                bytes(prefix + "//"),
                                GetOption.builder()
                                        .withRange(bytes(prefix + "/0"))
                                        .withLimit(1)
                                        .withKeysOnly(true)
                                        .build()),
                limit);
        return false;
    }
}
