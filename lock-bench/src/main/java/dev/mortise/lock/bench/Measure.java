package dev.mortise.lock.bench;

/** What is measured. */
enum Measure {
    P50("p50", "us", true, "acquire and release together, half of them faster"),
    P90("p90", "us", true, "nine of ten faster"),
    P99("p99", "us", true, "99 of 100 faster"),
    RATE("rate", "/s", false, "acquisitions, each with its release"),
    CPU("client CPU", "us/op", true, "processor time of the client's whole process for one acquire and release"),
    SERVER_CPU("server CPU", "us/op", true, "processor time of all servers for one acquire and release"),
    ACQUIRE_P50("acquire p50", "us", true, "from the call to the lock"),
    ACQUIRE_P99("acquire p99", "us", true, "from the call to the lock"),
    SHARE_MIN("least share", "%", false, "of the mean, by the thread or process that got least"),
    SHARE_MAX("most share", "%", true, "of the mean, by the thread or process that got most"),
    SHARE_MEAN("mean share", "locks", false, "acquisitions of a thread or process in one round"),
    MOVED("moved", "%", false, "acquisitions after another process's release; only these count in the percentiles"),
    OVERLAPS("overlaps", "", true, "acquisitions while another one held"),
    REQUESTS(
            "requests",
            "/op",
            true,
            "times that a server read from a socket, over all servers: calls in one packet count once; where servers do not"
                    + " count that, messages"),
    SCRIPTS("scripts", "/op", true, "EVAL, EVALSHA and FCALL, over all servers"),
    COMMAND_RATE("commands", "/s", true, "with those inside scripts"),
    REQUEST_RATE("requests", "/s", true, "times that a server read from a socket, or messages, over all servers"),
    SCRIPT_RATE("scripts", "/s", true, "EVAL, EVALSHA and FCALL, over all servers"),
    THREADS("client threads", "", true, "live threads more than before the client was opened"),
    ALL_THREADS("all threads", "", true, "live threads of its JVM: a bare one has 6 or 7, of which the bench adds 2"),
    CPU_RATE("client CPU", "ms/s", true, "processor time of the client's process"),
    COUNT("operations", "", false, "all that were done, those too that ended after the time"),
    OTHERS("others", "cores", true, "busy with what is none of the bench's processes, at the same time");

    final String label;
    final String unit;
    final boolean lowerIsBetter;
    final String meaning;

    Measure(String label, String unit, boolean lowerIsBetter, String meaning) {
        this.label = label;
        this.unit = unit;
        this.lowerIsBetter = lowerIsBetter;
        this.meaning = meaning;
    }

    String heading() {
        return unit.isEmpty() ? label : label + " " + unit;
    }
}
