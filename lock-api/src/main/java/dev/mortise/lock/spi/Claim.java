package dev.mortise.lock.spi;

import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Objects;

/**
 * One attempt to own a lock: a name, an owner, a lease. Equal when name and owner are. Immutable.
 *
 * <p>Clients make claims, and so do tests of backends; backends only receive them.
 */
public final class Claim {
    /** The longest name, in bytes of UTF-8. */
    public static final int LONGEST_NAME = 512;

    /** The longest owner id, in characters. */
    public static final int LONGEST_OWNER = 128;

    private final String name;
    private final String owner;
    private final Duration lease;

    private Claim(String name, String owner, Duration lease) {
        this.name = requireName(name);
        this.owner = requireOwner(owner);
        this.lease = Objects.requireNonNull(lease, "lease");
        if (lease.compareTo(Duration.ofMillis(1)) < 0) {
            throw new IllegalArgumentException("lease must be at least 1 ms: " + lease);
        }
    }

    /**
     * A claim.
     *
     * @param name see {@link #requireName}
     * @param owner 1 to 128 printable ASCII characters without space, unique to this attempt
     * @param lease at least one millisecond
     */
    public static Claim of(String name, String owner, Duration lease) {
        return new Claim(name, owner, lease);
    }

    /**
     * Checks a lock's name: not empty, no unpaired surrogates, at most 512 bytes of UTF-8.
     *
     * @return the name
     * @throws IllegalArgumentException if it is none; says why
     */
    public static String requireName(String name) {
        Objects.requireNonNull(name, "name");
        if (name.isEmpty()) {
            throw new IllegalArgumentException("name must not be empty");
        }
        int bytes;
        try {
            bytes = StandardCharsets.UTF_8
                    .newEncoder()
                    .encode(CharBuffer.wrap(name))
                    .remaining();
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException("name has an unpaired surrogate: " + start(name), e);
        }
        if (bytes > LONGEST_NAME) {
            throw new IllegalArgumentException(
                    "name has " + bytes + " bytes of UTF-8, more than " + LONGEST_NAME + ": " + start(name));
        }
        return name;
    }

    private static String requireOwner(String owner) {
        Objects.requireNonNull(owner, "owner");
        if (owner.isEmpty() || owner.length() > LONGEST_OWNER || !owner.chars().allMatch(c -> c > 0x20 && c < 0x7f)) {
            throw new IllegalArgumentException(
                    "owner must be 1 to " + LONGEST_OWNER + " printable ASCII characters: " + start(owner));
        }
        return owner;
    }

    private static String start(String text) {
        return text.length() <= 40 ? printable(text) : printable(text.substring(0, 40)) + "...";
    }

    /**
     * The text as it may stand in a message or a log: control characters, line ends, marks that turn the direction of
     * writing, and halves of surrogate pairs are escaped.
     */
    public static String printable(String text) {
        StringBuilder out = new StringBuilder(text.length());
        text.codePoints().forEach(c -> {
            switch (Character.getType(c)) {
                case Character.CONTROL,
                        Character.FORMAT,
                        Character.SURROGATE,
                        Character.LINE_SEPARATOR,
                        Character.PARAGRAPH_SEPARATOR,
                        Character.PRIVATE_USE,
                        Character.UNASSIGNED -> out.append(String.format("\\u%04x", c));
                default -> out.appendCodePoint(c);
            }
        });
        return out.toString();
    }

    /** The lock's name: not empty, no unpaired surrogates, at most 512 bytes of UTF-8. */
    public String name() {
        return name;
    }

    /** The owner id: printable ASCII, at most 128 characters, never used for another attempt. */
    public String owner() {
        return owner;
    }

    /** The lease asked for; at least one millisecond. */
    public Duration lease() {
        return lease;
    }

    /**
     * The store's yes to this claim.
     *
     * @param granted the lease that the holder may count on from {@code since}
     * @param token the fencing token; positive
     * @param since see {@link Grant#since()}
     */
    public Grant granted(Duration granted, long token, long since) {
        return new Grant(this, granted, token, since);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Claim that && name.equals(that.name) && owner.equals(that.owner);
    }

    @Override
    public int hashCode() {
        return 31 * name.hashCode() + owner.hashCode();
    }

    @Override
    public String toString() {
        return printable(name) + " by " + owner;
    }
}
