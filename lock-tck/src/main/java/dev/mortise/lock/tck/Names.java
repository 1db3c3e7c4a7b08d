package dev.mortise.lock.tck;

import dev.mortise.lock.spi.Claim;
import java.util.ArrayList;
import java.util.List;

/** Names that stores have mixed up, or could not take. */
final class Names {
    private Names() {}

    /** Two names each that are two locks; also some without the prefix, if nobody else uses the store. */
    static List<String[]> pairs(String prefix, boolean alone) {
        List<String[]> pairs = new ArrayList<>();
        String[][] ends = {
            {"n", "N"}, // case
            {"\u00e4", "\u00c4"},
            {"stra\u00dfe", "strasse"}, // equal in many collations
            {"i", "\u0131"},
            {"e\u0301", "\u00e9"}, // composed and decomposed
            {"e", "\u00e9"},
            {"A", "\uff21"}, // full width
            {"n", "n "}, // padded comparison
            {"n", " n"},
            {"n", "n\t"},
            {"n", "n\n"},
            {"n", "n\u0000"}, // end of a C string
            {"n\u0000a", "n\u0000b"},
            {"n", "n\u200b"}, // without width
            {"n/a", "n//a"}, // paths
            {"n/a", "n/a/"},
            {"n/../n", "n"},
            {"n%", "n%25"}, // encodings
            {"n%20", "n "},
            {"n+", "n "},
            {"n_", "nx"}, // patterns
            {"n*", "nx"},
            {"n:a", "n;a"},
            {"{n}a", "{n}b"}, // hash tags
            {"Aa", "BB"}, // one String.hashCode
            {"AaAa", "BBBB"},
            {"\ud83d\udd12", "\ud83d\udd13"}, // beyond 16 bits
        };
        for (String[] end : ends) {
            pairs.add(new String[] {prefix + end[0], prefix + end[1]});
        }
        for (int length : new int[] {32, 63, 64, 128, 191, 192, 254, 255, 256, 511}) {
            String same = prefix + "x".repeat(Math.max(1, length - prefix.length()));
            pairs.add(new String[] {same + "a", same + "b"}); // cut to a column's width
        }
        if (alone) {
            // One PostgreSQL hashtext each.
            pairs.add(new String[] {"n744", "n171856"});
            pairs.add(new String[] {"n48966", "n117568"});
        }
        return pairs;
    }

    /** Names that must be usable; also some without the prefix, if nobody else uses the store. */
    static List<String> odd(String prefix, boolean alone) {
        List<String> names = new ArrayList<>();
        for (int length : new int[] {64, 65, 192, 193, 255, 256, Claim.LONGEST_NAME}) {
            names.add(prefix + "x".repeat(length - prefix.length()));
        }
        names.add(prefix + "\ud83d\udd12".repeat((Claim.LONGEST_NAME - prefix.length()) / 4));
        if (alone) {
            names.add("\u0000");
            names.add(" ");
        }
        for (String text : new String[] {
            ".",
            "..",
            "/",
            "//",
            "/n",
            "n/",
            "\\",
            "'",
            "\"",
            "`",
            "''",
            "--",
            ";",
            "%",
            "%s",
            "_",
            "*",
            "?",
            "#",
            "&",
            "=",
            "$1",
            "{}",
            "[",
            "<",
            ">",
            "|",
            "null",
            "\r\n",
            "\t",
            "\u0001",
            "\u007f",
            "\u0085",
            "\u2028",
            "\ufeff",
            "\uffff",
            "\u05d0\u202e",
            "\u00e9",
            "e\u0301"
        }) {
            names.add(prefix + text);
        }
        return names;
    }

    static String show(String name) {
        String text = Claim.printable(name);
        return "'" + (text.length() <= 60 ? text : text.substring(0, 20) + "..." + text.substring(text.length() - 20))
                + "' (" + name.length() + " characters)";
    }
}
