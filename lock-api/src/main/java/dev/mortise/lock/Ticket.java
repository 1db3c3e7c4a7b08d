package dev.mortise.lock;

import dev.mortise.lock.spi.Claim;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;

/**
 * A detached lease on its way to its heir. As text: {@code m1.} and the base64url of name, owner, token and lease in
 * milliseconds.
 */
record Ticket(String name, String owner, long token, Duration lease) {
    private static final String VERSION = "m1.";

    static Ticket parse(String text) {
        if (!text.startsWith(VERSION)) {
            throw new IllegalArgumentException("ticket is not of a version known here, which begins with " + VERSION);
        }
        try (DataInputStream in = new DataInputStream(
                new ByteArrayInputStream(Base64.getUrlDecoder().decode(text.substring(VERSION.length()))))) {
            String name = text(in);
            String owner = text(in);
            Ticket ticket = new Ticket(name, owner, in.readLong(), Duration.ofMillis(in.readLong()));
            if (in.read() >= 0 || ticket.token <= 0) {
                throw new IllegalArgumentException("ticket is damaged");
            }
            Claim.of(name, owner, ticket.lease);
            if (!ticket.toString().equals(text)) {
                throw new IllegalArgumentException("ticket is not as it was given out");
            }
            return ticket;
        } catch (IOException | IllegalArgumentException e) {
            throw new IllegalArgumentException("ticket is damaged", e);
        }
    }

    private static String text(DataInputStream in) throws IOException {
        byte[] bytes = new byte[in.readUnsignedShort()];
        in.readFully(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    @Override
    public String toString() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            for (String text : new String[] {name, owner}) {
                byte[] encoded = text.getBytes(StandardCharsets.UTF_8);
                out.writeShort(encoded.length);
                out.write(encoded);
            }
            out.writeLong(token);
            out.writeLong(lease.toMillis());
        } catch (IOException e) {
            throw new UncheckedIOException(e); // memory does not fail
        }
        return VERSION + Base64.getUrlEncoder().withoutPadding().encodeToString(bytes.toByteArray());
    }
}
