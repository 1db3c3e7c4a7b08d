package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.etcd.EtcdCluster;
import dev.mortise.lock.etcd.EtcdServer;
import java.nio.file.Files;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** {@code mortise run} on three members of etcd. */
class EtcdOutliveTest extends Outliving {
    private final EtcdCluster cluster = new EtcdCluster(3);

    @AfterEach
    void stop() {
        cluster.close();
    }

    @Override
    List<String> store() {
        return List.of("--store", "etcd://" + cluster.hosts());
    }

    @Override
    void loseStore() {
        cluster.members().subList(0, 2).forEach(EtcdServer::freeze);
    }

    @Override
    void bringStoreBack() {
        cluster.members().subList(0, 2).forEach(EtcdServer::resume);
    }

    /** The leader is killed while the command runs, and another is frozen and comes back: nobody notices. */
    @Test
    void membersFailUnderTheCommand() throws Exception {
        ProcessBuilder words = Mortise.builder(
                processes,
                folder,
                "run",
                "x",
                "--lease",
                "4s",
                "--store",
                store().get(1),
                "--",
                "sh",
                "-c",
                "echo in $MORTISE_TOKEN; sleep 6; echo done");
        Mortise holder = start(words);
        int leader = cluster.leader();
        cluster.member(leader).kill();
        assertThat(holder.exit()).as(holder.err()).isZero();
        assertThat(holder.out()).contains("done");
        Files.createFile(log());
    }

    /** One of three is gone: it works as if nothing had happened. */
    @Test
    void aMinorityIsGone() throws Exception {
        cluster.member(1).kill();
        Mortise next = next();
        assertThat(next.exit()).as(next.err()).isZero();
    }

    /** Two of three are gone: one line that says what was tried, and nothing has run. */
    @Test
    void noMajority() throws Exception {
        cluster.members().subList(0, 2).forEach(EtcdServer::kill);
        Mortise next = next();
        assertThat(next.exit()).isEqualTo(69);
        assertThat(errors(next)).contains(store().get(1)).hasLineCount(1);
        assertThat(next.out()).isEmpty();
        Files.createFile(log());
    }

    /** None is there. */
    @Test
    void noStore() throws Exception {
        cluster.members().forEach(EtcdServer::kill);
        Mortise next = next();
        assertThat(next.exit()).isEqualTo(69);
        assertThat(errors(next)).contains(store().get(1)).hasLineCount(1);
        assertThat(next.out()).isEmpty();
        Files.createFile(log());
    }
}
