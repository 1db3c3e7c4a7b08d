package dev.mortise.lock.zookeeper;

import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.zookeeper.Session.Reply;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.data.ACL;

/** The root of all locks, made when it is not there; its data says which layout is below it. */
final class Layout {
    private final Paths paths;
    private final String chroot;
    private final List<ACL> rights;

    Layout(Paths paths, String chroot, List<ACL> rights) {
        this.paths = paths;
        this.chroot = chroot;
        this.rights = rights;
    }

    /**
     * Looks, and makes what is missing.
     *
     * @return fine, or that the session has ended
     * @throws Trouble if it is of another format, or the server refuses
     */
    Reply ensure(Session session, long limit) throws Trouble, InterruptedException {
        byte[] format = Paths.FORMAT.getBytes(StandardCharsets.US_ASCII);
        while (true) {
            Reply root = answer(session.read(paths.root()), limit);
            if (root.isFine()) {
                String found = root.data();
                if (!found.equals(Paths.FORMAT)) {
                    throw new Trouble(
                            paths.root() + " is of the format '" + Claim.printable(cut(found))
                                    + "', and this client knows '" + Paths.FORMAT + "' only",
                            "let all users of this store have the same version of Mortise, or choose another path",
                            false,
                            null);
                }
                return root;
            }
            if (root.is(Code.SESSIONEXPIRED)) {
                return root;
            }
            if (root.is(Code.NONODE)) {
                root = make(session, format, limit);
                if (root.is(Code.SESSIONEXPIRED)) {
                    return root;
                }
            }
            if (root.isToBeSentAgain()) {
                session.awaitConnected(Math.min(Math.max(1, limit - System.nanoTime()), 100_000_000));
            } else if (!root.isFine() && !root.is(Code.NODEEXISTS)) {
                throw Trouble.answered(root.code(), paths.root());
            }
        }
    }

    private Reply make(Session session, byte[] format, long limit) throws Trouble, InterruptedException {
        for (int slash = chroot.indexOf('/', 1); !chroot.isEmpty(); slash = chroot.indexOf('/', slash + 1)) {
            String part = slash < 0 ? chroot : chroot.substring(0, slash);
            Reply there = answer(session.exists(part), limit);
            boolean isThere = !there.is(Code.NONODE);
            if (!isThere) {
                there = answer(session.createRoot(part, new byte[0], rights), limit);
            }
            // Who may not look at a node has learned that it is there.
            if (!there.isFine() && !there.is(Code.NODEEXISTS) && !(there.is(Code.NOAUTH) && isThere)) {
                if (there.isToBeSentAgain() || there.is(Code.SESSIONEXPIRED)) {
                    return there;
                }
                throw Trouble.answered(there.code(), part);
            }
            if (slash < 0) {
                break;
            }
        }
        return answer(session.createRoot(paths.root(), format, rights), limit);
    }

    private static String cut(String text) {
        return text.length() > 40 ? text.substring(0, 40) + "..." : text;
    }

    private static Reply answer(CompletableFuture<Reply> reply, long limit) throws Trouble, InterruptedException {
        long left = limit - System.nanoTime();
        try {
            return reply.get(Math.max(0, left), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            throw Trouble.silence("no answer in time");
        } catch (ExecutionException e) {
            throw new IllegalStateException(e);
        }
    }
}
