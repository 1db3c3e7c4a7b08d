package org.example.lock.hazelcast;

import com.hazelcast.cluster.MembershipEvent;
import com.hazelcast.cluster.MembershipListener;
import com.hazelcast.config.Config;
import com.hazelcast.config.ServerSocketEndpointConfig;
import com.hazelcast.core.Hazelcast;
import com.hazelcast.core.HazelcastInstance;
import java.util.List;

/**
 * A member in a JVM of its own, to be killed. It prints a line for each change, the number of members that it knows, and ends
 * when its standard input does, and so with the process that started it.
 *
 * <p>Arguments: cluster, port for members, where members reach it, port for clients, where clients reach it, and where all
 * members are reached.
 */
final class Member {
    private Member() {}

    public static void main(String[] arguments) throws Exception {
        Config config = HazelcastLocks.configure(new Config());
        config.setClusterName(arguments[0]);
        config.setProperty("hazelcast.logging.type", "none");
        config.setProperty("hazelcast.phone.home.enabled", "false");
        config.setProperty("hazelcast.shutdownhook.enabled", "false");
        config.setProperty("hazelcast.partition.count", "31");
        config.setProperty("hazelcast.operation.thread.count", "2");
        config.setProperty("hazelcast.socket.bind.any", "false");
        // Parts that find each other again become one soon.
        config.setProperty("hazelcast.merge.first.run.delay.seconds", "1");
        config.setProperty("hazelcast.merge.next.run.delay.seconds", "1");
        config.setProperty("hazelcast.wait.seconds.before.join", "0");
        config.getMetricsConfig().setEnabled(false);
        config.getJetConfig().setEnabled(false);
        // Members and clients come in by ports of their own, so that the network between members can fail alone.
        config.getAdvancedNetworkConfig()
                .setEnabled(true)
                .setMemberEndpointConfig(endpoint(arguments[1], arguments[2]))
                .setClientEndpointConfig(endpoint(arguments[3], arguments[4]));
        config.getAdvancedNetworkConfig().getJoin().getAutoDetectionConfig().setEnabled(false);
        config.getAdvancedNetworkConfig().getJoin().getMulticastConfig().setEnabled(false);
        config.getAdvancedNetworkConfig()
                .getJoin()
                .getTcpIpConfig()
                .setEnabled(true)
                .setMembers(List.of(arguments[5].split(",", -1)));
        HazelcastInstance member = Hazelcast.newHazelcastInstance(config);
        member.getCluster().addMembershipListener(new MembershipListener() {
            @Override
            public void memberAdded(MembershipEvent event) {
                System.out.println(event.getMembers().size());
            }

            @Override
            public void memberRemoved(MembershipEvent event) {
                System.out.println(event.getMembers().size());
            }
        });
        System.out.println(member.getCluster().getMembers().size());
        while (System.in.read() >= 0) {
            // Until its end.
        }
        Runtime.getRuntime().halt(0);
    }

    private static ServerSocketEndpointConfig endpoint(String port, String publicAddress) {
        ServerSocketEndpointConfig endpoint = new ServerSocketEndpointConfig();
        endpoint.setPort(Integer.parseInt(port)).setPortAutoIncrement(false).setPublicAddress(publicAddress);
        endpoint.getInterfaces().setEnabled(true).addInterface("127.0.0.1");
        return endpoint;
    }
}
