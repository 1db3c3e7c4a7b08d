package dev.mortise.lock.redis;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisDataException;

/** Looks, when a store is opened, whether a server can keep locks at all. What it may not look at, it says. */
final class Probe {
    private static final Logger LOG = System.getLogger(Probe.class.getName());

    private final String store;
    private final int replicas;
    private final boolean cluster;

    /**
     * @param replicas how many are needed
     * @param cluster whether it is known that there may be several servers
     */
    Probe(String store, int replicas, boolean cluster) {
        this.store = store;
        this.replicas = replicas;
        this.cluster = cluster;
    }

    void look(Link link, Wait wait) throws Trouble {
        List<Object> answers = link.exchange(
                wait,
                List.of(
                        new CommandArguments(Protocol.Command.INFO),
                        new CommandArguments(Protocol.Command.CONFIG).add("GET").add("save")));
        String server = String.valueOf(link.server.at);
        if (!(answers.get(0) instanceof byte[] info)) {
            if (answers.get(0) instanceof JedisDataException e) {
                if (!Trouble.code(e).equals("NOPERM")) {
                    throw Trouble.answered(e);
                }
                LOG.log(
                        Level.WARNING,
                        store + ": " + server + ": not checked, because the user may not ask for INFO: whether it is a"
                                + " master, its version, its maxmemory-policy, and whether it keeps data over a restart");
            }
            return;
        }
        Map<String, String> facts = facts(new String(info, StandardCharsets.UTF_8));
        requireMaster(server, facts);
        requireAllSlots(server, facts);
        requireVersion(server, facts);
        requireKeepsKeys(server, facts);
        requireReplicas(server, facts);
        tellOfPersistence(server, facts, answers.get(1));
    }

    private static Map<String, String> facts(String info) {
        Map<String, String> facts = new HashMap<>();
        for (String line : info.split("\r\n", -1)) {
            int colon = line.indexOf(':');
            if (colon > 0) {
                facts.put(line.substring(0, colon), line.substring(colon + 1));
            }
        }
        return facts;
    }

    private static void requireMaster(String server, Map<String, String> facts) throws Trouble {
        String role = facts.getOrDefault("role", "master");
        if (!role.equals("master")) {
            throw new Trouble(
                    server + " is a replica of " + facts.get("master_host") + ":" + facts.get("master_port"),
                    "give the address of the master, or redis+sentinel://",
                    false,
                    null);
        }
    }

    private void requireAllSlots(String server, Map<String, String> facts) throws Trouble {
        if (!cluster && "1".equals(facts.get("cluster_enabled"))) {
            throw new Trouble(
                    server + " belongs to a Cluster, and keeps some of the names only",
                    "use redis+cluster://",
                    false,
                    null);
        }
    }

    /** Before 6.2, scripts and ACLs are not what this builds on. Valkey tells a version of Redis, too. */
    private static void requireVersion(String server, Map<String, String> facts) throws Trouble {
        String version = facts.getOrDefault("redis_version", "");
        String[] parts = version.split("\\.", -1);
        try {
            if (parts.length >= 2 && Integer.parseInt(parts[0]) * 1000 + Integer.parseInt(parts[1]) < 6002) {
                throw new Trouble(
                        server + " is of version " + version, "use Redis 6.2 or later, or Valkey", false, null);
            }
        } catch (NumberFormatException e) {
            LOG.log(Level.DEBUG, "version " + version, e);
        }
    }

    private static void requireKeepsKeys(String server, Map<String, String> facts) throws Trouble {
        String policy = facts.getOrDefault("maxmemory_policy", "noeviction").toLowerCase(Locale.ROOT);
        if (!policy.equals("noeviction")) {
            throw new Trouble(
                    server + " has the maxmemory-policy " + policy + ", and throws locks away when its memory is full",
                    "set maxmemory-policy to noeviction, or keep locks in a server of their own",
                    false,
                    null);
        }
    }

    private void requireReplicas(String server, Map<String, String> facts) throws Trouble {
        String connected = facts.getOrDefault("connected_slaves", "");
        if (replicas > 0 && connected.matches("\\d{1,9}") && Integer.parseInt(connected) < replicas) {
            throw new Trouble(
                    server + " has " + connected + " replicas, fewer than the " + replicas + " asked for",
                    "add replicas, or ask for fewer (replicas)",
                    false,
                    null);
        }
    }

    private void tellOfPersistence(String server, Map<String, String> facts, Object save) {
        if ("1".equals(facts.get("aof_enabled"))) {
            return;
        }
        if (!(save instanceof List<?> pair) || pair.size() != 2 || !(pair.get(1) instanceof byte[] when)) {
            LOG.log(
                    Level.INFO,
                    store + ": " + server + ": not checked, because the user may not ask for CONFIG: whether it keeps"
                            + " data over a restart");
        } else if (when.length == 0) {
            LOG.log(
                    Level.WARNING,
                    store + ": " + server + " keeps nothing over a restart (no appendonly, no save): then all locks are"
                            + " free at once, while their holders still count on them; tokens go on growing");
        }
    }
}
