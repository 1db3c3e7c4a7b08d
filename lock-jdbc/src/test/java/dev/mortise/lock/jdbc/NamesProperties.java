package dev.mortise.lock.jdbc;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;

/** The encoding of names. */
class NamesProperties {

    /** It can be undone, so no two names share one; and it is printable ASCII without space. */
    @Property
    void isWithoutCollisions(@ForAll String name) {
        String encoded = Names.encode(name);
        // An unpaired surrogate is no name, and Claim refuses it.
        String utf8 = new String(name.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8);
        assertThat(decode(encoded)).isEqualTo(utf8);
        assertThat(encoded.chars()).allMatch(c -> c > 0x20 && c < 0x7f);
    }

    private static String decode(String encoded) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (int i = 0; i < encoded.length(); i++) {
            if (encoded.charAt(i) == '%') {
                bytes.write(Integer.parseInt(encoded.substring(i + 1, i + 3), 16));
                i += 2;
            } else {
                bytes.write(encoded.charAt(i));
            }
        }
        return bytes.toString(StandardCharsets.UTF_8);
    }
}
