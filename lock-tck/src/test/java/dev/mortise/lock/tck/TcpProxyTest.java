package dev.mortise.lock.tck;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class TcpProxyTest {
    private final BlockingQueue<String> heard = new LinkedBlockingQueue<>();
    private final BlockingQueue<String> ends = new LinkedBlockingQueue<>();
    private ServerSocket server;
    private TcpProxy proxy;

    /** A server that answers each line with "re " and the line. */
    @BeforeEach
    void start() throws IOException {
        server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        Thread thread = new Thread(() -> {
            while (!server.isClosed()) {
                try {
                    Socket client = server.accept();
                    Thread each = new Thread(() -> answer(client));
                    each.setDaemon(true);
                    each.start();
                } catch (IOException e) {
                    return;
                }
            }
        });
        thread.setDaemon(true);
        thread.start();
        proxy = new TcpProxy(server.getLocalPort());
    }

    private void answer(Socket client) {
        try (client;
                BufferedReader in =
                        new BufferedReader(new InputStreamReader(client.getInputStream(), StandardCharsets.UTF_8));
                PrintStream out = new PrintStream(client.getOutputStream(), true, StandardCharsets.UTF_8)) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                heard.add(line);
                out.println("re " + line);
            }
            ends.add("end");
        } catch (IOException e) {
            // Reset by the proxy.
        }
    }

    @AfterEach
    void stop() throws IOException {
        proxy.close();
        server.close();
    }

    private final class Client implements AutoCloseable {
        private final Socket socket = new Socket(InetAddress.getLoopbackAddress(), proxy.port());
        private final BufferedReader in =
                new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
        private final PrintStream out = new PrintStream(socket.getOutputStream(), true, StandardCharsets.UTF_8);

        Client() throws IOException {}

        void send(String line) {
            out.println(line);
        }

        /** The next line, or null where the connection has ended. */
        String read(Duration patience) throws IOException {
            socket.setSoTimeout((int) patience.toMillis());
            return in.readLine();
        }

        String ask(String line) throws IOException {
            send(line);
            return read(Delays.DEFAULT.longest());
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }
    }

    private String hears() throws InterruptedException {
        return heard.poll(Delays.DEFAULT.longest().toMillis(), TimeUnit.MILLISECONDS);
    }

    private String endsHeard() throws InterruptedException {
        return ends.poll(Delays.DEFAULT.longest().toMillis(), TimeUnit.MILLISECONDS);
    }

    @Test
    void passes() throws Exception {
        try (Client client = new Client()) {
            assertThat(client.ask("a")).isEqualTo("re a");
            assertThat(client.ask("b")).isEqualTo("re b");
        }
    }

    @Test
    void losesAReplyAfterItsEffect() throws Exception {
        try (Client client = new Client();
                Client other = new Client()) {
            proxy.loseReplyTo(request -> request.startsWith("two"));
            assertThat(client.ask("one")).isEqualTo("re one");
            client.send("two");
            assertThatThrownBy(() -> {
                        if (client.read(Delays.DEFAULT.longest()) == null) {
                            throw new IOException("end");
                        }
                    })
                    .isInstanceOf(IOException.class)
                    .isNotInstanceOf(SocketTimeoutException.class);
            assertThat(other.ask("two")).isEqualTo("re two");
        }
        assertThat(heard).containsExactly("one", "two", "two");
    }

    @Test
    void dropsRequests() throws Exception {
        try (Client client = new Client()) {
            proxy.requests(TcpProxy.Mode.DROP);
            client.send("lost");
            assertThatThrownBy(() -> client.read(Delays.DEFAULT.shortLease()))
                    .isInstanceOf(SocketTimeoutException.class);
            proxy.heal();
            assertThat(client.ask("b")).isEqualTo("re b");
        }
        assertThat(heard).containsExactly("b");
    }

    @Test
    void dropsReplies() throws Exception {
        try (Client client = new Client()) {
            proxy.replies(TcpProxy.Mode.DROP);
            client.send("a");
            assertThat(hears()).isEqualTo("a");
            assertThatThrownBy(() -> client.read(Delays.DEFAULT.shortLease()))
                    .isInstanceOf(SocketTimeoutException.class);
            proxy.heal();
            assertThat(client.ask("b")).isEqualTo("re b");
        }
    }

    @Test
    void holdsRequestsOfAClientThatIsGone() throws Exception {
        proxy.requests(TcpProxy.Mode.HOLD);
        try (Client client = new Client()) {
            client.send("late");
            assertThatThrownBy(() -> client.read(Delays.DEFAULT.shortLease()))
                    .isInstanceOf(SocketTimeoutException.class);
        }
        assertThat(heard).isEmpty();
        proxy.heal();
        assertThat(hears()).isEqualTo("late");
    }

    @Test
    void delaysReplies() throws Exception {
        try (Client client = new Client()) {
            client.ask("warm");
            proxy.delayReplies(Delays.DEFAULT.shortLease());
            long before = System.nanoTime();
            assertThat(client.ask("a")).isEqualTo("re a");
            assertThat(System.nanoTime() - before)
                    .isGreaterThanOrEqualTo(Delays.DEFAULT.shortLease().toNanos());
        }
    }

    @Test
    void cutsAndRefuses() throws Exception {
        try (Client client = new Client()) {
            client.ask("a");
            proxy.refuse(true);
            assertThat(client.ask("b")).isEqualTo("re b");
            proxy.cut();
            assertThatThrownBy(() -> {
                        if (client.read(Delays.DEFAULT.longest()) == null) {
                            throw new IOException("end");
                        }
                    })
                    .isInstanceOf(IOException.class)
                    .isNotInstanceOf(SocketTimeoutException.class);
        }
        assertThatThrownBy(() -> {
                    try (Client refused = new Client()) {
                        if (refused.ask("c") == null) {
                            throw new IOException("end");
                        }
                    }
                })
                .isInstanceOf(IOException.class)
                .isNotInstanceOf(SocketTimeoutException.class);
        proxy.heal();
        try (Client client = new Client()) {
            assertThat(client.ask("d")).isEqualTo("re d");
        }
    }

    private AutoCloseable begin(Fault fault) {
        return TcpProxy.begin(fault, List.of(proxy));
    }

    /** An end, or a reset: not silence. */
    private static void assertBroken(Client client) {
        assertThatThrownBy(() -> {
                    if (client.read(Delays.DEFAULT.longest()) == null) {
                        throw new IOException("end");
                    }
                })
                .isInstanceOf(IOException.class)
                .isNotInstanceOf(SocketTimeoutException.class);
    }

    private static void assertSilent(Client client) {
        assertThatThrownBy(() -> client.read(Delays.DEFAULT.shortLease())).isInstanceOf(SocketTimeoutException.class);
    }

    @Test
    void breaksConnectionsOnce() throws Exception {
        try (Client client = new Client()) {
            client.ask("a");
            try (AutoCloseable fault = begin(Fault.CONNECTIONS_BROKEN);
                    Client other = new Client()) {
                assertBroken(client);
                assertThat(other.ask("b")).isEqualTo("re b");
            }
        }
    }

    /** Neither side hears of the other, nor of its end; what went lost never makes room for what comes later. */
    @Test
    void networkIsGone() throws Exception {
        try (Client idle = new Client();
                Client busy = new Client();
                Client leaving = new Client()) {
            idle.ask("1");
            busy.ask("2");
            leaving.ask("3");
            heard.clear();
            try (AutoCloseable fault = begin(Fault.NETWORK_GONE)) {
                busy.send("lost");
                leaving.close();
                assertSilent(busy);
                try (Client late = new Client()) {
                    late.send("lost too");
                    assertSilent(late);
                }
                assertThat(heard).isEmpty();
                assertThat(ends).isEmpty();
            }
            assertBroken(busy);
            assertThat(idle.ask("4")).isEqualTo("re 4");
        }
        assertThat(heard).contains("4").doesNotContain("lost", "lost too");
    }

    @Test
    void repliesAreLostAndThenTheConnection() throws Exception {
        try (Client idle = new Client();
                Client busy = new Client()) {
            idle.ask("1");
            busy.ask("2");
            heard.clear();
            try (AutoCloseable fault = begin(Fault.REPLIES_LOST)) {
                busy.send("a");
                assertThat(hears()).isEqualTo("a");
                assertSilent(busy);
            }
            assertBroken(busy);
            assertThat(idle.ask("b")).isEqualTo("re b");
        }
    }

    @Test
    void requestsOfOldConnectionsAreLate() throws Exception {
        try (Client old = new Client();
                Client leaving = new Client()) {
            old.ask("1");
            leaving.ask("2");
            heard.clear();
            try (AutoCloseable fault = begin(Fault.REQUESTS_LATE)) {
                old.send("late");
                leaving.send("orphan");
                leaving.close();
                assertSilent(old);
                old.send("and more");
                assertBroken(old);
                try (Client young = new Client()) {
                    assertThat(young.ask("a")).isEqualTo("re a");
                    assertThat(hears()).isEqualTo("a");
                }
                assertThat(endsHeard()).as("of the young one").isNotNull();
                assertThat(heard).isEmpty();
                assertThat(ends).isEmpty();
            }
            assertThat(List.of(hears(), hears(), hears())).containsSubsequence("late", "and more");
            assertThat(endsHeard()).as("behind what was late").isNotNull();
            assertThat(endsHeard()).as("behind the orphan").isNotNull();
        }
    }

    @Test
    void causesNothingThatIsNotOfTheNetwork() {
        assertThatThrownBy(() -> begin(Fault.SERVER_KILLED))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("fault: SERVER_KILLED");
    }
}
