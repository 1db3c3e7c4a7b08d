package dev.mortise.lock.etcd;

import com.google.protobuf.ByteString;
import io.etcd.jetcd.api.AuthGrpc;
import io.etcd.jetcd.api.AuthenticateRequest;
import io.etcd.jetcd.api.Compare;
import io.etcd.jetcd.api.DeleteRangeRequest;
import io.etcd.jetcd.api.KVGrpc;
import io.etcd.jetcd.api.KeyValue;
import io.etcd.jetcd.api.LeaseGrantRequest;
import io.etcd.jetcd.api.LeaseGrantResponse;
import io.etcd.jetcd.api.LeaseGrpc;
import io.etcd.jetcd.api.LeaseKeepAliveRequest;
import io.etcd.jetcd.api.LeaseKeepAliveResponse;
import io.etcd.jetcd.api.LeaseRevokeRequest;
import io.etcd.jetcd.api.LeaseTimeToLiveRequest;
import io.etcd.jetcd.api.MaintenanceGrpc;
import io.etcd.jetcd.api.PutRequest;
import io.etcd.jetcd.api.RangeRequest;
import io.etcd.jetcd.api.RangeResponse;
import io.etcd.jetcd.api.RequestOp;
import io.etcd.jetcd.api.StatusRequest;
import io.etcd.jetcd.api.StatusResponse;
import io.etcd.jetcd.api.TxnRequest;
import io.etcd.jetcd.api.TxnResponse;
import io.etcd.jetcd.api.WatchCancelRequest;
import io.etcd.jetcd.api.WatchCreateRequest;
import io.etcd.jetcd.api.WatchGrpc;
import io.etcd.jetcd.api.WatchRequest;
import io.etcd.jetcd.api.WatchResponse;
import io.grpc.Attributes;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ClientStreamTracer;
import io.grpc.ConnectivityState;
import io.grpc.ForwardingClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ClientResponseObserver;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.ssl.SslContext;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Speaks to etcd by connections of its own, one to each server, with one thread for all of them. A server that refuses, hangs
 * or has lost the others is left for the next one within the same call.
 *
 * <p>Not by jetcd's client: that opens a stream for each proof of life, or sends them when it likes; compares no ranges; and
 * stays with a server as long as its connection lasts, whether or not it still answers. Its generated classes are used.
 */
final class GrpcWire implements Wire {
    private static final Logger LOG = System.getLogger(GrpcWire.class.getName());

    private static final Metadata.Key<String> TOKEN = Metadata.Key.of("token", Metadata.ASCII_STRING_MARSHALLER);

    /** Tells a server to end a stream, and not to be silent, when it has lost the leader. */
    private static final Metadata.Key<String> HAS_LEADER =
            Metadata.Key.of("hasleader", Metadata.ASCII_STRING_MARSHALLER);

    private static final long FIRST_PAUSE = TimeUnit.MILLISECONDS.toNanos(5);
    private static final long LONGEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(200);

    /** Those that the first servers with the repair of etcd's issue 15247 have. */
    private static final int[] REPAIRED_3_4 = {3, 4, 31};

    private static final int[] REPAIRED_3_5 = {3, 5, 13};

    /** Of which stores it has been said that their version is faulty: once is enough. */
    private static final java.util.Set<String> TOLD = java.util.concurrent.ConcurrentHashMap.newKeySet();

    private final String shown;
    private final List<Server> servers = new ArrayList<>();
    private final EventLoopGroup loop = new MultiThreadIoEventLoopGroup(
            1, new DefaultThreadFactory("mortise-etcd", true), NioIoHandler.newFactory());
    private final @Nullable String user;
    private final @Nullable String password;
    private final Trouble.Kind kind;

    /** The longest that one server may keep a call to itself where there are others. */
    private final long share;

    /** Which server is asked; one that does not do moves it on. */
    private final AtomicInteger at = new AtomicInteger();

    private final Current<BeatFlow> beats = new Current<>();
    private final Current<WatchFlow> watches = new Current<>();
    private volatile @Nullable String token;
    private volatile boolean closed;

    private record Server(String shown, ManagedChannel channel) {}

    /** Where a server is. */
    record Address(String host, int port) {
        @Override
        public String toString() {
            return (host.indexOf(':') >= 0 ? "[" + host + "]" : host) + ":" + port;
        }
    }

    /** An answer, and whether an earlier request for it was left without one. */
    private record Reply<R>(R value, boolean again) {}

    /**
     * Connects to nothing yet.
     *
     * @param shown the store as people know it
     * @param tls null for none
     * @param showsIdentity whether there is a certificate of the client in it
     */
    GrpcWire(
            String shown,
            List<Address> addresses,
            @Nullable String user,
            @Nullable String password,
            @Nullable SslContext tls,
            boolean showsIdentity,
            Duration callTimeout) {
        this.shown = shown;
        this.user = user;
        this.password = password;
        kind = tls == null ? Trouble.Kind.PLAIN : showsIdentity ? Trouble.Kind.IDENTITY : Trouble.Kind.SECURE;
        share = callTimeout.toNanos() / 3;
        for (Address address : addresses) {
            NettyChannelBuilder builder = NettyChannelBuilder.forAddress(address.host(), address.port())
                    .eventLoopGroup(loop)
                    .channelType(NioSocketChannel.class)
                    .directExecutor()
                    .disableRetry()
                    .disableServiceConfigLookUp()
                    // Finds connections that end in silence; more often than each five seconds etcd would not have it.
                    .keepAliveTime(10, TimeUnit.SECONDS)
                    .keepAliveTimeout(Math.max(1, callTimeout.toMillis()), TimeUnit.MILLISECONDS);
            if (tls == null) {
                builder.usePlaintext();
            } else {
                builder.sslContext(tls);
            }
            servers.add(new Server(address.toString(), builder.build()));
        }
    }

    @Override
    public String shown() {
        return shown;
    }

    @Override
    public boolean isClosed() {
        return closed;
    }

    @Override
    public void close() {
        closed = true;
        beats.close();
        watches.close();
        servers.forEach(server -> server.channel().shutdownNow());
        boolean interrupted = false;
        for (Server server : servers) {
            try {
                // A loop that ends before them has them complain.
                boolean unused = server.channel().awaitTermination(1, TimeUnit.SECONDS);
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        Future<?> unused = loop.shutdownGracefully(0, 1, TimeUnit.SECONDS);
    }

    // ---- Calls ---------------------------------------------------------------------------------------------------

    /** Whether a call has come as far as a connection: until then it has done nothing. */
    private static final class Sent extends ClientStreamTracer.Factory {
        volatile boolean maybe;

        @Override
        public ClientStreamTracer newClientStreamTracer(ClientStreamTracer.StreamInfo info, Metadata headers) {
            return new ClientStreamTracer() {
                @Override
                public void streamCreated(Attributes transport, Metadata all) {
                    maybe = true;
                }
            };
        }
    }

    private int index() {
        return Math.floorMod(at.get(), servers.size());
    }

    /** The next server, unless somebody else has gone on already. */
    private void leaveServer(int seen) {
        if (servers.size() > 1) {
            boolean unused = at.compareAndSet(seen, seen + 1);
        }
    }

    private <Q, R> ClientCall<Q, R> open(
            Server server, MethodDescriptor<Q, R> method, CallOptions options, boolean stream) {
        ManagedChannel channel = server.channel();
        if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
            // It would wait for seconds or minutes before it looks again.
            channel.resetConnectBackoff();
        }
        return new ForwardingClientCall.SimpleForwardingClientCall<Q, R>(channel.newCall(method, options)) {
            @Override
            public void start(Listener<R> listener, Metadata headers) {
                String known = token;
                // Not to ask for another: a server that knows nothing of this one refuses that as well.
                if (known != null && method != AuthGrpc.getAuthenticateMethod()) {
                    headers.put(TOKEN, known);
                }
                if (stream) {
                    headers.put(HAS_LEADER, "true");
                }
                super.start(listener, headers);
            }
        };
    }

    /** One request to one server. */
    private <Q, R> R ask(Server server, MethodDescriptor<Q, R> method, Q request, Limit limit)
            throws Trouble, InterruptedException {
        Sent sent = new Sent();
        CallOptions options = CallOptions.DEFAULT
                .withDeadlineAfter(Math.max(1, limit.left()), TimeUnit.NANOSECONDS)
                .withStreamTracerFactory(sent);
        Future<R> answer = ClientCalls.futureUnaryCall(open(server, method, options, false), request);
        boolean answered = false;
        try {
            R value = limit.await(answer);
            answered = true;
            if (value == null) {
                boolean unused = answer.cancel(true);
                throw Trouble.late(server.shown(), sent.maybe, null);
            }
            return value;
        } catch (ExecutionException e) {
            answered = true;
            if (closed) {
                throw new Trouble("this client of the store was closed", "open another", sent.maybe, e.getCause());
            }
            Throwable cause = e.getCause();
            throw Trouble.of(cause == null ? e : cause, server.shown(), sent.maybe, kind);
        } finally {
            if (!answered) {
                boolean unused = answer.cancel(true);
            }
        }
    }

    /**
     * Asks one server after the other until there is an answer.
     *
     * @param again whether it may be asked for again when it may have been done
     */
    private <Q, R> Reply<R> call(MethodDescriptor<Q, R> method, Q request, boolean again, Limit limit)
            throws Trouble, InterruptedException {
        Trouble met = null;
        boolean limbo = false;
        boolean introduced = false;
        long pause = FIRST_PAUSE;
        while (true) {
            if (closed) {
                throw Trouble.closed();
            }
            int seen = at.get();
            Server server = servers.get(index());
            if (limit.isOver()) {
                throw Trouble.late(server.shown(), limbo, met);
            }
            try {
                R value = ask(server, method, request, servers.size() == 1 ? limit : limit.part(share));
                return new Reply<>(value, limbo);
            } catch (Trouble e) {
                if (e.isStaleToken() && user != null && !introduced) {
                    introduced = true;
                    introduce(Integer.MAX_VALUE, limit);
                    continue;
                }
                if (!e.isPassing()) {
                    if (servers.size() == 1 || !isTls(e) || limit.left() < share) {
                        throw e;
                    }
                }
                leaveServer(seen);
                limbo |= e.effect;
                met = met != null && limit.isOver() ? met : e;
                if (e.effect && !again) {
                    throw e;
                }
                limit.pause(Math.min(pause, Math.max(0, limit.left() / 2)));
                pause = Math.min(LONGEST_PAUSE, pause * 2);
            }
        }
    }

    private static boolean isTls(Trouble e) {
        return String.valueOf(e.getMessage()).contains("TLS")
                || String.valueOf(e.getMessage()).contains("certificate");
    }

    /** Tells the servers who this is, and gets a token for it. */
    private void introduce(int tries, Limit limit) throws Trouble, InterruptedException {
        if (user == null) {
            return;
        }
        AuthenticateRequest request = AuthenticateRequest.newBuilder()
                .setName(user)
                .setPassword(password == null ? "" : password)
                .build();
        Trouble met = null;
        for (int i = 1; ; i++) {
            int seen = at.get();
            Server server = servers.get(index());
            if (limit.isOver()) {
                throw Trouble.late(server.shown(), false, met);
            }
            try {
                token = ask(
                                server,
                                AuthGrpc.getAuthenticateMethod(),
                                request,
                                servers.size() == 1 ? limit : limit.part(share))
                        .getToken();
                return;
            } catch (Trouble e) {
                if (String.valueOf(e.getMessage()).contains("authentication is not enabled")) {
                    LOG.log(Level.WARNING, shown + ": user and password are given, and nobody asks for them");
                    return;
                }
                if (!e.isPassing() || i == tries) {
                    throw e;
                }
                met = e;
                leaveServer(seen);
                limit.pause(FIRST_PAUSE);
            }
        }
    }

    // ---- What is asked ---------------------------------------------------------------------------------------------

    private static ByteString bytes(String text) {
        return ByteString.copyFromUtf8(text);
    }

    private static RequestOp op(RangeRequest range) {
        return RequestOp.newBuilder().setRequestRange(range).build();
    }

    private static RangeRequest one(String key) {
        return RangeRequest.newBuilder().setKey(bytes(key)).build();
    }

    private static RangeRequest.Builder line(Keys keys, RangeRequest.SortOrder order, int many) {
        return RangeRequest.newBuilder()
                .setKey(bytes(keys.start()))
                .setRangeEnd(bytes(keys.end()))
                .setSortTarget(RangeRequest.SortTarget.CREATE)
                .setSortOrder(order)
                .setLimit(many);
    }

    private static RangeRequest oldest(Keys keys, int many) {
        return line(keys, RangeRequest.SortOrder.ASCEND, many).build();
    }

    private static Entry entry(KeyValue kv) {
        return new Entry(
                kv.getKey().toStringUtf8(), kv.getValue().toStringUtf8(), kv.getCreateRevision(), kv.getLease());
    }

    private static @Nullable Entry first(RangeResponse range) {
        return range.getKvsCount() == 0 ? null : entry(range.getKvs(0));
    }

    @Override
    public Line enter(Keys keys, String owner, String value, long lease, boolean ifFree, Limit limit)
            throws Trouble, InterruptedException {
        String own = keys.of(owner);
        Compare.Builder condition = Compare.newBuilder()
                .setTarget(Compare.CompareTarget.CREATE)
                .setResult(Compare.CompareResult.EQUAL)
                .setCreateRevision(0)
                .setKey(bytes(ifFree ? keys.start() : own));
        if (ifFree) {
            // Of an empty range it holds, and of one with keys it does not.
            condition.setRangeEnd(bytes(keys.end()));
        }
        TxnRequest.Builder request = TxnRequest.newBuilder()
                .addCompare(condition)
                .addSuccess(RequestOp.newBuilder()
                        .setRequestPut(PutRequest.newBuilder()
                                .setKey(bytes(own))
                                .setValue(bytes(value))
                                .setLease(lease)))
                .addFailure(op(one(own)))
                .addFailure(op(oldest(keys, 1)));
        if (!ifFree) {
            request.addSuccess(op(line(keys, RangeRequest.SortOrder.DESCEND, 2).build()));
        }
        TxnResponse answer =
                call(KVGrpc.getTxnMethod(), request.build(), false, limit).value();
        long term = answer.getHeader().getRaftTerm();
        if (answer.getSucceeded()) {
            Entry made = new Entry(own, value, answer.getHeader().getRevision(), lease);
            Entry ahead = null;
            if (!ifFree) {
                for (KeyValue each : answer.getResponses(1).getResponseRange().getKvsList()) {
                    if (each.getCreateRevision() < made.created()) {
                        ahead = entry(each);
                    }
                }
            }
            return new Line(made, true, ahead, term);
        }
        Entry there = first(answer.getResponses(0).getResponseRange());
        Entry oldest = first(answer.getResponses(1).getResponseRange());
        return new Line(there, false, oldest != null && oldest.key().equals(own) ? null : oldest, term);
    }

    @Override
    public Line look(Keys keys, String owner, long created, Limit limit) throws Trouble, InterruptedException {
        TxnRequest request = TxnRequest.newBuilder()
                .addSuccess(op(one(keys.of(owner))))
                .addSuccess(op(line(keys, RangeRequest.SortOrder.DESCEND, 1)
                        .setMaxCreateRevision(created - 1)
                        .build()))
                .build();
        TxnResponse answer = call(KVGrpc.getTxnMethod(), request, true, limit).value();
        return new Line(
                first(answer.getResponses(0).getResponseRange()),
                false,
                first(answer.getResponses(1).getResponseRange()),
                answer.getHeader().getRaftTerm());
    }

    @Override
    public Left leave(Keys keys, String owner, Limit limit) throws Trouble, InterruptedException {
        TxnRequest request = TxnRequest.newBuilder()
                .addSuccess(op(oldest(keys, 2)))
                .addSuccess(RequestOp.newBuilder()
                        .setRequestDeleteRange(DeleteRangeRequest.newBuilder()
                                .setKey(bytes(keys.of(owner)))
                                .setPrevKv(true)))
                .build();
        Reply<TxnResponse> answer = call(KVGrpc.getTxnMethod(), request, true, limit);
        List<KeyValue> gone =
                answer.value().getResponses(1).getResponseDeleteRange().getPrevKvsList();
        return Left.of(
                gone.isEmpty() ? null : entry(gone.get(0)),
                answer.value().getResponses(0).getResponseRange().getKvsList().stream()
                        .map(GrpcWire::entry)
                        .toList(),
                answer.value().getHeader().getRaftTerm(),
                answer.again());
    }

    @Override
    public Found find(List<String> keys, Limit limit) throws Trouble, InterruptedException {
        TxnRequest.Builder request = TxnRequest.newBuilder();
        keys.forEach(key -> request.addSuccess(op(one(key))));
        TxnResponse answer =
                call(KVGrpc.getTxnMethod(), request.build(), true, limit).value();
        List<Entry> found = new ArrayList<>();
        answer.getResponsesList()
                .forEach(each -> each.getResponseRange().getKvsList().forEach(kv -> found.add(entry(kv))));
        return new Found(found, answer.getHeader().getRaftTerm());
    }

    @Override
    public @Nullable Entry oldest(Keys keys, Limit limit) throws Trouble, InterruptedException {
        return first(call(KVGrpc.getRangeMethod(), oldest(keys, 1), true, limit).value());
    }

    @Override
    public Granted grant(long seconds, Limit limit) throws Trouble, InterruptedException {
        LeaseGrantResponse answer = call(
                        LeaseGrpc.getLeaseGrantMethod(),
                        LeaseGrantRequest.newBuilder().setTTL(seconds).build(),
                        true,
                        limit)
                .value();
        if (!answer.getError().isEmpty() || answer.getTTL() <= 0) {
            throw new Trouble(
                    "no lease of " + seconds + " s: " + answer.getError(), "see the log of the server", false, null);
        }
        return new Granted(answer.getID(), answer.getTTL());
    }

    private static LeaseRevokeRequest revocation(long lease) {
        return LeaseRevokeRequest.newBuilder().setID(lease).build();
    }

    @Override
    public void revoke(long lease, Limit limit) throws Trouble, InterruptedException {
        try {
            Reply<?> unused = call(LeaseGrpc.getLeaseRevokeMethod(), revocation(lease), true, limit);
        } catch (LeaseGone e) {
            LOG.log(Level.DEBUG, "revoked before", e);
        }
    }

    @Override
    public CompletableFuture<?> revokeSoon(long lease) {
        CompletableFuture<Object> done = new CompletableFuture<>();
        CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(10, TimeUnit.SECONDS);
        ClientCalls.asyncUnaryCall(
                open(servers.get(index()), LeaseGrpc.getLeaseRevokeMethod(), options, false),
                revocation(lease),
                new io.grpc.stub.StreamObserver<io.etcd.jetcd.api.LeaseRevokeResponse>() {
                    @Override
                    public void onNext(io.etcd.jetcd.api.LeaseRevokeResponse value) {
                        done.complete(value);
                    }

                    @Override
                    public void onError(Throwable t) {
                        // It ends by itself.
                        LOG.log(Level.DEBUG, "revoke of a lease that nobody needs", t);
                        done.completeExceptionally(t);
                    }

                    @Override
                    public void onCompleted() {}
                });
        return done;
    }

    @Override
    public long left(long lease, Limit limit) throws Trouble, InterruptedException {
        return call(
                        LeaseGrpc.getLeaseTimeToLiveMethod(),
                        LeaseTimeToLiveRequest.newBuilder().setID(lease).build(),
                        true,
                        limit)
                .value()
                .getTTL();
    }

    // ---- Streams ---------------------------------------------------------------------------------------------------

    /** A stream to one server, which many share; another one when it breaks or is silent. */
    private abstract class Flow<Q, R> implements ClientResponseObserver<Q, R> {
        final Object lock = new Object();
        private final int seen = at.get();
        private final Server server = servers.get(Math.floorMod(seen, servers.size()));

        /** When something came last, or it was opened. */
        private volatile long heard = System.nanoTime();

        /** Guarded by the lock, as is what subclasses keep. */
        private @Nullable ClientCallStreamObserver<Q> out;

        private boolean over;

        /** What it carries, for messages. */
        abstract String what();

        /** Something came. The lock is not held. */
        abstract void take(R answer);

        /** Forgets all who wait, and returns what tells them that nothing comes any more. The lock is held. */
        abstract Runnable drop();

        void start(MethodDescriptor<Q, R> method) {
            if (closed) {
                end();
                return;
            }
            io.grpc.stub.StreamObserver<Q> unused =
                    ClientCalls.asyncBidiStreamingCall(open(server, method, CallOptions.DEFAULT, true), this);
        }

        @Override
        public final void beforeStart(ClientCallStreamObserver<Q> stream) {
            synchronized (lock) {
                out = stream;
            }
        }

        /** The lock is held. */
        final boolean isOver() {
            return over || out == null;
        }

        /** The lock is held. False if it has ended meanwhile, which it tells itself in a moment. */
        final boolean send(Q request) {
            try {
                if (out != null) {
                    out.onNext(request);
                    return true;
                }
            } catch (IllegalStateException e) {
                LOG.log(Level.DEBUG, shown + ": " + what() + ": the stream has ended meanwhile", e);
            }
            return false;
        }

        /**
         * It has not answered one who asked then. If nothing has come since, it is silent, and not only slow, and that is so
         * for all who share it.
         */
        final void hasNotAnswered(long since) {
            if (since - heard >= 0) {
                leaveServer(seen);
                cancel("no answer in time");
            }
        }

        @Override
        public final void onNext(R answer) {
            heard = System.nanoTime();
            take(answer);
        }

        @Override
        public final void onError(Throwable failure) {
            if (!closed) {
                LOG.log(
                        Level.DEBUG,
                        shown + ": " + what() + ": "
                                + Trouble.of(failure, server.shown(), true, kind)
                                        .getMessage());
                leaveServer(seen);
            }
            end();
        }

        @Override
        public final void onCompleted() {
            leaveServer(seen);
            end();
        }

        final void cancel(String why) {
            ClientCallStreamObserver<Q> stream;
            synchronized (lock) {
                stream = out;
            }
            if (stream != null) {
                stream.cancel(why, null);
            }
            end();
        }

        private void end() {
            beats.ended(this);
            watches.ended(this);
            Runnable tell;
            synchronized (lock) {
                over = true;
                tell = drop();
            }
            tell.run();
        }
    }

    /** The stream that is in use, if there is one. */
    private static final class Current<F extends Flow<?, ?>> {
        private @Nullable F flow;

        synchronized F get(Supplier<F> opens, Consumer<F> starts) {
            F open = flow;
            if (open == null) {
                open = opens.get();
                flow = open;
                starts.accept(open);
            }
            return open;
        }

        synchronized void ended(Flow<?, ?> which) {
            if (flow == which) {
                flow = null;
            }
        }

        void close() {
            F open;
            synchronized (this) {
                open = flow;
            }
            if (open != null) {
                open.cancel("closed");
            }
        }
    }

    // ---- Proofs of life --------------------------------------------------------------------------------------------

    @Override
    public Beat beat(long lease) {
        return beats.get(BeatFlow::new, flow -> flow.start(LeaseGrpc.getLeaseKeepAliveMethod()))
                .beat(lease);
    }

    private final class BeatFlow extends Flow<LeaseKeepAliveRequest, LeaseKeepAliveResponse> {
        /** In the order of sending, which is that of the answers, for each lease. */
        private final Map<Long, Deque<CompletableFuture<Proof>>> waiting = new HashMap<>();

        @Override
        String what() {
            return "proofs of life";
        }

        Beat beat(long lease) {
            CompletableFuture<Proof> answer = new CompletableFuture<>();
            synchronized (lock) {
                if (isOver()) {
                    answer.complete(Proof.NONE);
                } else {
                    waiting.computeIfAbsent(lease, id -> new ArrayDeque<>()).add(answer);
                    if (!send(LeaseKeepAliveRequest.newBuilder().setID(lease).build())) {
                        answer.complete(Proof.NONE);
                    }
                }
            }
            long sent = System.nanoTime();
            return limit -> {
                try {
                    Proof proof = limit.await(answer);
                    if (proof == null) {
                        hasNotAnswered(sent);
                        return Proof.NONE;
                    }
                    return proof;
                } catch (ExecutionException e) {
                    throw new IllegalStateException(e);
                }
            };
        }

        @Override
        void take(LeaseKeepAliveResponse answer) {
            CompletableFuture<Proof> first;
            synchronized (lock) {
                Deque<CompletableFuture<Proof>> those = waiting.get(answer.getID());
                first = those == null ? null : those.poll();
                if (those != null && those.isEmpty()) {
                    waiting.remove(answer.getID());
                }
            }
            if (first != null) {
                first.complete(new Proof(answer.getTTL(), answer.getHeader().getRaftTerm()));
            }
        }

        @Override
        Runnable drop() {
            List<CompletableFuture<Proof>> left = new ArrayList<>();
            waiting.values().forEach(left::addAll);
            waiting.clear();
            return () -> left.forEach(each -> each.complete(Proof.NONE));
        }
    }

    // ---- Watches ---------------------------------------------------------------------------------------------------

    @Override
    public Watching watch(String key) {
        return watches.get(WatchFlow::new, flow -> flow.start(WatchGrpc.getWatchMethod()))
                .watch(key);
    }

    /** Tells each waiter of its own watch, and all of them that the stream is over. */
    private final class WatchFlow extends Flow<WatchRequest, WatchResponse> {
        /** Asked for, in that order, which is the one of the answers: a watch gets its number by its answer. */
        private final Deque<Signal> asked = new ArrayDeque<>();

        private final Map<Long, Signal> signals = new HashMap<>();

        @Override
        String what() {
            return "watches";
        }

        Watching watch(String key) {
            Signal signal = new Signal(this);
            synchronized (lock) {
                if (isOver()) {
                    signal.end();
                    return signal;
                }
                asked.add(signal);
                boolean unused = send(WatchRequest.newBuilder()
                        // From now on: what it is told of the past, etcd tells only each tenth of a second.
                        .setCreateRequest(WatchCreateRequest.newBuilder()
                                .setKey(bytes(key))
                                .addFilters(WatchCreateRequest.FilterType.NOPUT))
                        .build());
            }
            return signal;
        }

        void remove(Signal signal) {
            synchronized (lock) {
                signal.unwanted = true;
                if (signal.id >= 0 && signals.remove(signal.id) != null && !isOver()) {
                    cancelWatch(signal.id);
                }
            }
        }

        /** The lock is held. */
        private void cancelWatch(long id) {
            boolean unused = send(WatchRequest.newBuilder()
                    .setCancelRequest(WatchCancelRequest.newBuilder().setWatchId(id))
                    .build());
        }

        @Override
        void take(WatchResponse answer) {
            Signal signal;
            synchronized (lock) {
                signal = answer.getCreated() ? asked.poll() : signals.get(answer.getWatchId());
                if (signal == null) {
                    return;
                }
                if (answer.getCreated() && !answer.getCanceled()) {
                    if (signal.unwanted) {
                        cancelWatch(answer.getWatchId());
                        return;
                    }
                    signal.id = answer.getWatchId();
                    signals.put(signal.id, signal);
                }
            }
            if (answer.getCanceled()) {
                LOG.log(Level.DEBUG, shown + ": a watch was refused: " + answer.getCancelReason());
                if (answer.getCancelReason().contains("permission denied")
                        || answer.getCancelReason().contains("invalid auth token")) {
                    // What a stream was opened with holds for its life; the next call finds out which of the two it
                    // is.
                    cancel("another token is needed");
                }
                signal.end();
            } else if (answer.getCreated()) {
                signal.begin();
            } else if (answer.getEventsCount() > 0) {
                signal.event();
            }
        }

        @Override
        Runnable drop() {
            List<Signal> all = new ArrayList<>(signals.values());
            all.addAll(asked);
            signals.clear();
            asked.clear();
            return () -> all.forEach(Signal::end);
        }
    }

    private static final class Signal implements Watching {
        private final WatchFlow on;

        /** By the store; negative until it is known. The flow's lock guards these two. */
        private long id = -1;

        private boolean unwanted;
        private final long made = System.nanoTime();
        private final CompletableFuture<Boolean> begun = new CompletableFuture<>();
        private final CompletableFuture<Boolean> told = new CompletableFuture<>();
        private volatile boolean broken;

        Signal(WatchFlow on) {
            this.on = on;
        }

        void begin() {
            begun.complete(true);
        }

        void event() {
            told.complete(true);
        }

        void end() {
            broken = true;
            begun.complete(false);
            told.complete(true);
        }

        @Override
        public boolean begun(Limit limit) throws InterruptedException {
            Boolean yes = got(begun, limit);
            if (yes == null) {
                on.hasNotAnswered(made);
            }
            return yes != null && yes;
        }

        @Override
        public boolean await(Limit limit) throws InterruptedException {
            return got(told, limit) != null;
        }

        private static @Nullable Boolean got(Future<Boolean> future, Limit limit) throws InterruptedException {
            try {
                return limit.await(future);
            } catch (ExecutionException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public boolean isBroken() {
            return broken;
        }

        @Override
        public void close() {
            on.remove(this);
        }
    }

    // ---- Opening ---------------------------------------------------------------------------------------------------

    /** Each server is looked at by itself; those that cannot be reached are said, as long as one can. */
    @Override
    public boolean probe(String prefix, Limit limit) throws Trouble, InterruptedException {
        // Each once: what is down is said at once.
        introduce(servers.size(), limit);
        Limit most = limit.part(limit.left() / 4 * 3);
        Map<Server, Future<StatusResponse>> asked = new java.util.LinkedHashMap<>();
        for (Server server : servers) {
            CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(Math.max(1, most.left()), TimeUnit.NANOSECONDS);
            asked.put(
                    server,
                    ClientCalls.futureUnaryCall(
                            open(server, MaintenanceGrpc.getStatusMethod(), options, false),
                            StatusRequest.getDefaultInstance()));
        }
        // Where some have answered, those that have not are waited for a little longer; else for as long as there is.
        Limit little = limit.part(share);
        while (!most.isOver()
                && !asked.values().stream().allMatch(Future::isDone)
                && !(little.isOver() && asked.values().stream().anyMatch(GrpcWire::isAnswered))) {
            most.pause(TimeUnit.MILLISECONDS.toNanos(1));
        }
        Limit each = limit.part(0);
        Trouble silent = null;
        List<Server> reached = new ArrayList<>();
        List<String> unreached = new ArrayList<>();
        long cluster = 0;
        boolean repaired = true;
        for (Map.Entry<Server, Future<StatusResponse>> one : asked.entrySet()) {
            Server server = one.getKey();
            try {
                StatusResponse answer = each.await(one.getValue());
                if (answer == null) {
                    throw Trouble.late(server.shown(), false, null);
                }
                repaired &= isRepaired(server, answer.getVersion());
                long its = answer.getHeader().getClusterId();
                if (!reached.isEmpty() && its != cluster) {
                    throw new Trouble(
                            server.shown() + " and " + reached.get(0).shown() + " belong to two clusters",
                            "name servers of one cluster only",
                            false,
                            null);
                }
                cluster = its;
                reached.add(server);
            } catch (ExecutionException e) {
                Throwable cause = e.getCause();
                Trouble trouble = Trouble.of(cause == null ? e : cause, server.shown(), false, kind);
                if (!trouble.isPassing() && !isTls(trouble)) {
                    // Who may not ask this may still lock.
                    LOG.log(Level.WARNING, shown + ": version not checked: " + trouble.getMessage());
                    repaired = false;
                    reached.add(server);
                    continue;
                }
                unreached.add(trouble.getMessage());
                silent = silent == null || silent.isPassing() ? trouble : silent;
            } catch (Trouble e) {
                if (!e.isPassing()) {
                    throw e;
                }
                unreached.add(e.getMessage());
                silent = silent == null ? e : silent;
            }
        }
        if (reached.isEmpty() && silent != null) {
            throw silent;
        }
        if (!unreached.isEmpty()) {
            LOG.log(Level.WARNING, shown + ": not checked, because it cannot be reached: " + unreached);
        }
        at.set(servers.indexOf(reached.get(0)));
        // Whether this user may read here at all.
        Reply<?> unused = call(
                KVGrpc.getRangeMethod(),
                RangeRequest.newBuilder()
                        .setKey(bytes(prefix + "//"))
                        .setRangeEnd(bytes(prefix + "/0"))
                        .setLimit(1)
                        .setKeysOnly(true)
                        .build(),
                true,
                limit);
        return repaired;
    }

    private static boolean isAnswered(Future<?> future) {
        if (!future.isDone()) {
            return false;
        }
        try {
            Object unused = future.get();
            return true;
        } catch (ExecutionException | InterruptedException | java.util.concurrent.CancellationException e) {
            return false;
        }
    }

    private boolean isRepaired(Server server, String version) throws Trouble {
        int[] has = version(version);
        if (has == null) {
            LOG.log(Level.WARNING, shown + ": " + server.shown() + " is of a version that is none: " + version);
            return false;
        }
        if (before(has, new int[] {3, 4, 0})) {
            throw new Trouble(server.shown() + " is of version " + version, "use etcd 3.4 or later", false, null);
        }
        if (isFaulty(has) && TOLD.add(shown + " " + version)) {
            LOG.log(
                    Level.WARNING,
                    shown + ": " + server.shown() + " is of version " + version + ", in which a leader that was stopped"
                            + " or slow can end leases of a later one early, so that two hold a lock until the older"
                            + " renews. Use 3.4.31, 3.5.13, or later");
        }
        return !isFaulty(has);
    }

    /** The first three numbers, or null. */
    static int @Nullable [] version(String text) {
        java.util.regex.Matcher m = java.util.regex.Pattern.compile("(\\d{1,6})\\.(\\d{1,6})\\.(\\d{1,6}).*")
                .matcher(text);
        return m.matches()
                ? new int[] {Integer.parseInt(m.group(1)), Integer.parseInt(m.group(2)), Integer.parseInt(m.group(3))}
                : null;
    }

    /** Whether an old leader may still revoke leases: etcd's issue 15247. */
    static boolean isFaulty(int[] version) {
        return before(version, REPAIRED_3_4)
                || (!before(version, new int[] {3, 5, 0}) && before(version, REPAIRED_3_5));
    }

    private static boolean before(int[] one, int[] other) {
        return java.util.Arrays.compare(one, other) < 0;
    }
}
