package dev.mortise.lock.tck;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Chromium without a window, asked through its DevTools, for pages of the disk. */
final class Browser implements AutoCloseable {
    private static final Duration LONG = Duration.ofSeconds(60);

    private final Process process;
    private final WebSocket socket;
    private final BlockingQueue<JsonObject> received = new LinkedBlockingQueue<>();
    private final List<String> complaints = new ArrayList<>();
    private int calls;
    private String session = "";

    /** Starts it, with a profile of its own in this folder. */
    Browser(Path folder) throws IOException, InterruptedException {
        Path program = program();
        ProcessBuilder builder = new ProcessBuilder(
                        program.toString(),
                        "--headless",
                        "--no-sandbox", // The tests may run as root, in a container.
                        "--disable-gpu",
                        "--disable-dev-shm-usage",
                        "--disable-background-networking",
                        "--no-first-run",
                        "--remote-debugging-port=0",
                        "--user-data-dir=" + folder,
                        "about:blank")
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(folder.resolve("chromium.log").toFile());
        builder.environment().put("TMPDIR", folder.toString());
        process = builder.start();
        try {
            socket = HttpClient.newHttpClient()
                    .newWebSocketBuilder()
                    .connectTimeout(LONG)
                    .buildAsync(address(folder), new Listener())
                    .join();
            String target = call("Target.createTarget", "{\"url\": \"about:blank\"}")
                    .get("targetId")
                    .getAsString();
            session = call("Target.attachToTarget", "{\"targetId\": \"" + target + "\", \"flatten\": true}")
                    .get("sessionId")
                    .getAsString();
            call("Page.enable", "{}");
            call("Runtime.enable", "{}");
            call("Log.enable", "{}");
            call("Network.enable", "{}");
        } catch (IOException | InterruptedException | RuntimeException e) {
            end();
            throw e;
        }
    }

    private static Path program() {
        for (String name : List.of("chromium", "chromium-browser", "google-chrome")) {
            for (String folder : System.getenv("PATH").split(":", -1)) {
                Path program = Path.of(folder.isEmpty() ? "." : folder, name);
                if (Files.isExecutable(program)) {
                    return program;
                }
            }
        }
        throw new AssertionError("the report is read by a real browser, and there is none: apt-get install -y"
                + " --no-install-recommends chromium");
    }

    private URI address(Path folder) throws IOException, InterruptedException {
        Path file = folder.resolve("DevToolsActivePort");
        long end = System.nanoTime() + LONG.toNanos();
        while (System.nanoTime() < end && process.isAlive()) {
            if (Files.exists(file)) {
                List<String> lines = Files.readAllLines(file);
                if (lines.size() == 2) {
                    return URI.create("ws://127.0.0.1:" + lines.get(0) + lines.get(1));
                }
            }
            TimeUnit.MILLISECONDS.sleep(20);
        }
        throw new IOException("chromium does not start: " + Files.readString(folder.resolve("chromium.log")));
    }

    private final class Listener implements WebSocket.Listener {
        private final StringBuilder text = new StringBuilder();

        @Override
        public CompletionStage<?> onText(WebSocket socket, CharSequence data, boolean last) {
            text.append(data);
            if (last) {
                received.add(JsonParser.parseString(text.toString()).getAsJsonObject());
                text.setLength(0);
            }
            socket.request(1);
            return null;
        }
    }

    private JsonObject call(String method, String parameters) throws InterruptedException, IOException {
        int number = ++calls;
        socket.sendText(
                        "{\"id\": " + number + ", \"method\": \"" + method + "\", \"params\": " + parameters
                                + (session.isEmpty() ? "" : ", \"sessionId\": \"" + session + "\"") + "}",
                        true)
                .join();
        JsonObject answer =
                await(message -> message.has("id") && message.get("id").getAsInt() == number);
        if (answer.has("error")) {
            throw new IOException(method + ": " + answer.get("error"));
        }
        return answer.getAsJsonObject("result");
    }

    private interface Which {
        boolean is(JsonObject message);
    }

    private JsonObject await(Which which) throws InterruptedException, IOException {
        long end = System.nanoTime() + LONG.toNanos();
        while (true) {
            JsonObject message = received.poll(end - System.nanoTime(), TimeUnit.NANOSECONDS);
            if (message == null) {
                throw new IOException("chromium has not answered within " + LONG);
            }
            note(message);
            if (which.is(message)) {
                return message;
            }
        }
    }

    private void note(JsonObject message) {
        String method = message.has("method") ? message.get("method").getAsString() : "";
        switch (method) {
            case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded" ->
                complaints.add(message.toString());
            case "Network.requestWillBeSent" -> {
                String url = Optional.of(message.getAsJsonObject("params"))
                        .map(p -> p.getAsJsonObject("request"))
                        .map(r -> r.get("url").getAsString())
                        .orElse("?");
                if (!url.startsWith("file:") && !url.startsWith("data:")) {
                    complaints.add("asked the network for " + url);
                }
            }
            default -> {}
        }
    }

    /** Opens a page in a window of this width; a small one is a phone's. */
    void open(Path page, int width, boolean dark) throws IOException, InterruptedException {
        call(
                "Emulation.setDeviceMetricsOverride",
                "{\"width\": " + width + ", \"height\": 800, \"deviceScaleFactor\": 1, \"mobile\": " + (width < 600)
                        + "}");
        call(
                "Emulation.setEmulatedMedia",
                "{\"features\": [{\"name\": \"prefers-color-scheme\", \"value\": \"" + (dark ? "dark" : "light")
                        + "\"}]}");
        call("Page.navigate", "{\"url\": \"" + page.toAbsolutePath().toUri() + "\"}");
        await(message ->
                message.has("method") && message.get("method").getAsString().equals("Page.loadEventFired"));
    }

    /** The value of an expression in the page. */
    JsonElement ask(String expression) throws IOException, InterruptedException {
        JsonObject parameters = new JsonObject();
        parameters.addProperty("expression", expression);
        parameters.addProperty("returnByValue", true);
        JsonObject answer = call("Runtime.evaluate", parameters.toString());
        if (answer.has("exceptionDetails")) {
            throw new IOException(expression + ": " + answer.get("exceptionDetails"));
        }
        return answer.getAsJsonObject("result").get("value");
    }

    /** What it has complained of, and whom it has asked, since it started. */
    List<String> complaints() {
        return complaints;
    }

    /** The whole page as a PNG. */
    void picture(Path file) throws IOException, InterruptedException {
        String data = call("Page.captureScreenshot", "{\"captureBeyondViewport\": true}")
                .get("data")
                .getAsString();
        Files.write(file, Base64.getDecoder().decode(data.getBytes(StandardCharsets.US_ASCII)));
    }

    private void end() throws InterruptedException {
        process.descendants().forEach(ProcessHandle::destroyForcibly);
        process.destroyForcibly().waitFor();
    }

    @Override
    public void close() throws InterruptedException {
        socket.abort();
        end();
    }
}
