package dev.mortise.lock;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Objects;

/** Certificates of an authority of the tests' own, and of another, as PEM files in a folder. Made by the JDK's keytool. */
public final class Certificates {
    private static final String PASSWORD = "only-for-tests";

    private final Path folder;

    /** Makes them all, for servers on the loopback. */
    public Certificates(Path folder) {
        this.folder = folder;
        authority("ca");
        authority("other-ca");
        signed("server", "ca", "-ext", "san=dns:localhost,ip:127.0.0.1");
        signed("elsewhere", "ca", "-ext", "san=dns:elsewhere.example.com");
        signed("client", "ca");
        signed("other-client", "other-ca");
    }

    /** The certificate. */
    public Path pem(String name) {
        return folder.resolve(name + ".crt");
    }

    /** Its private key. */
    public Path key(String name) {
        return folder.resolve(name + ".key");
    }

    /** Both in one file. */
    public Path both(String name) {
        return folder.resolve(name + ".pem");
    }

    private void authority(String name) {
        keytool(name, "-genkeypair", "-alias", name, "-dname", "CN=" + name, "-ext", "bc:c");
        export(name);
    }

    private void signed(String name, String authority, String... more) {
        List<String> words = new ArrayList<>(List.of("-genkeypair", "-alias", name, "-dname", "CN=" + name));
        words.addAll(List.of("-signer", authority));
        words.addAll(Arrays.asList(more));
        keytool(name, words.toArray(String[]::new));
        export(name);
    }

    private void keytool(String name, String... words) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "keytool").toString());
        command.addAll(List.of(words));
        command.addAll(List.of("-keyalg", "EC", "-groupname", "secp256r1", "-validity", "2"));
        command.addAll(List.of("-keystore", folder.resolve("all.p12").toString(), "-storetype", "PKCS12"));
        command.addAll(List.of("-storepass", PASSWORD));
        command.add("-J-XX:TieredStopAtLevel=1");
        try {
            Process process =
                    new ProcessBuilder(command).redirectErrorStream(true).start();
            String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            if (process.waitFor() != 0) {
                throw new AssertionError("keytool for " + name + ": " + said);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private void export(String name) {
        try (InputStream in = Files.newInputStream(folder.resolve("all.p12"))) {
            KeyStore store = KeyStore.getInstance("PKCS12");
            store.load(in, PASSWORD.toCharArray());
            Certificate certificate = Objects.requireNonNull(store.getCertificate(name));
            String shown = block("CERTIFICATE", certificate.getEncoded());
            String secret = block(
                    "PRIVATE KEY", store.getKey(name, PASSWORD.toCharArray()).getEncoded());
            Files.writeString(pem(name), shown);
            Files.writeString(key(name), secret);
            Files.writeString(both(name), shown + secret);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (GeneralSecurityException e) {
            throw new AssertionError(e);
        }
    }

    private static String block(String what, byte[] bytes) {
        return "-----BEGIN " + what + "-----\n"
                + Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(bytes) + "\n-----END " + what + "-----\n";
    }
}
