package dev.mortise.lock.bench;

import java.io.StringReader;
import javax.xml.parsers.DocumentBuilder;
import javax.xml.parsers.DocumentBuilderFactory;
import org.w3c.dom.Document;
import org.xml.sax.InputSource;

/** The page, as a reader of XML sees it. */
final class Pages {
    private Pages() {}

    static Document parse(String page) {
        try {
            DocumentBuilder builder = DocumentBuilderFactory.newInstance().newDocumentBuilder();
            return builder.parse(new InputSource(new StringReader(page)));
        } catch (Exception e) {
            throw new AssertionError("not well formed: " + e.getMessage() + "\n" + page, e);
        }
    }
}
