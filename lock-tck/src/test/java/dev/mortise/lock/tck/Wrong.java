package dev.mortise.lock.tck;

import java.util.List;
import java.util.Set;

/**
 * Wrong backends, each with the rule that must find it. Some are the mistakes of well-known libraries; see also the
 * wrong clients of {@code SimulationTest}.
 */
enum Wrong {
    FREED_TOO_SOON(Rule.R0_1, "declares that a claim is gone in half its lease"),
    CHANGES_ITS_MIND(Rule.R0_1, "declares something else at every call"),
    CLOSE_RELEASES(Rule.R0_2, "declares that leases outlive their client, and releases them at its close"),
    ADOPTS_UNDECLARED(Rule.R0_2, "does not declare outlivesClient, and adopts"),
    CLOSE_ONCE(Rule.R0_3, "throws at the second close"),
    CLOSE_FOR_ALL(Rule.R0_3, "closes what all clients share"),
    HELD_IS_A_BUG(Rule.R0_4, "throws IllegalStateException if somebody else holds it"),
    HELD_IS_A_FAILURE(Rule.R0_4, "throws LockStoreException if somebody else holds it"),

    NO_CHECK(Rule.R1_1, "grants without looking whether it is held"),
    CHECK_THEN_ACT(Rule.R1_1, "looks whether it is held, and then takes it"),
    REFUSES_NOW_AND_THEN(Rule.R1_2, "takes a conflict inside the store for held"),
    RELEASE_UNSEEN(Rule.R1_2, "has a cache of what is held that its own release does not clear"),
    NAMES_FOLDED(Rule.R1_3, "compares names without case"),
    NAMES_CUT(Rule.R1_3, "cuts names to 191 characters"),
    NAMES_PADDED(Rule.R1_3, "compares names as padded with spaces"),
    NAMES_HASHED(Rule.R1_3, "hashes names to 32 bits"),
    RELEASES_ALL_NAMES(Rule.R1_3, "releases all names of the client"),
    NAMES_TOO_LONG(Rule.R1_4, "refuses names longer than 255 characters"),
    NAMES_OF_LETTERS(Rule.R1_4, "refuses control characters in names"),
    SECOND_TOKEN(Rule.R1_5, "gives the same owner a second token when it asks again"),
    REFUSES_ITS_OWNER(Rule.R1_5, "refuses the owner that asks again"),

    RELEASE_IGNORES_OWNER(Rule.R2_1, "deletes whoever's claim it is"),
    RENEW_IGNORES_OWNER(Rule.R2_2, "renews whoever's claim it is"),
    RENEW_LENGTHENS_OTHERS(Rule.R2_2, "answers ended, but lengthens whoever's claim it is"),
    RENEW_SEES_ANY(Rule.R2_3, "answers live if anybody holds the name"),
    RELEASE_DOES_NOTHING(Rule.R2_4, "answers a release without doing it"),
    RELEASE_LATER(Rule.R2_4, "answers a release before it is done"),
    RELEASE_ALWAYS_TRUE(Rule.R2_5, "answers true to every release"),
    RELEASE_ONCE(Rule.R2_5, "throws at the release of what is gone"),
    RENEW_RECREATES(Rule.R2_6, "writes the claim anew where it is gone"),
    RENEW_IGNORES_END(Rule.R2_6, "renews what has expired and was not taken yet"),

    NEVER_ENDS(Rule.R3_1, "keeps claims for ever"),
    ENDS_TWICE_AS_LATE(Rule.R3_1, "keeps claims for twice what it declares"),
    RENEW_GIVES_UP(Rule.R3_2, "answers ended when it could not look"),
    ENDS_EARLY(Rule.R3_2, "keeps claims for half the lease that it grants"),
    SINCE_FROM_REPLY(Rule.R3_3, "counts the lease from the arrival of the answer"),
    RENEWED_SINCE_FROM_REPLY(Rule.R3_3, "counts the renewed lease from the arrival of the answer"),
    CARRIER_KEPT_ALIVE(Rule.R3_4, "keeps all claims of a client while one of them is renewed"),
    CARRIER_AGED(Rule.R3_5, "grants a full lease from now on a carrier that is older"),
    ALL_OR_NOTHING(Rule.R3_6, "answers ended for all grants of a renewal if one has ended"),
    RENEW_DOES_NOTHING(Rule.R3_7, "looks whether a claim is live, and does not lengthen it"),
    CLOCK_OF_THE_ARRIVAL(Rule.R3_8, "judges a request that has waited by the time at which it came"),
    HOLDS_NOTHING_UP(Rule.R3_8, "a test's Store whose holdUp lets requests through"),

    ZERO_WAITS(Rule.R4_1, "waits for a release with zero patience"),
    PATIENCE_IGNORED(Rule.R4_2, "waits until it is granted, whatever the patience"),
    WAKE_UP_LOST(Rule.R4_3, "looks once, then listens for a release that has already been"),
    REFUSED_STAYS_QUEUED(Rule.R4_4, "leaves a refused waiter in the queue"),
    INTERRUPTED_STAYS_QUEUED(Rule.R4_5, "leaves an interrupted waiter in the queue, where release does not look"),
    QUEUE_TAKEN_FOR_GRANT(Rule.R4_6, "grants to the first in the queue, whose own entry has expired"),
    REST_IN_OTHER_UNITS(Rule.R4_7, "tells a rest a thousand times as long"),

    TOKEN_CONSTANT(Rule.R5_1, "has one token for all grants"),
    TOKEN_BY_CLIENT(Rule.R5_2, "counts tokens for each client"),
    TOKEN_RANDOM(Rule.R5_2, "draws tokens at random"),
    TOKEN_BEFORE_LOCK(Rule.R5_3, "draws the token when asked, and keeps it until the lock is got"),
    TOKEN_NEW_AT_RENEWAL(Rule.R5_4, "raises the token at a renewal"),
    TOKEN_GOES_WITH_THE_LOCK(Rule.R5_5, "keeps the counter in the record that release deletes"),
    TOKEN_SHARED(Rule.R5_6, "gives the next holder the token of the last"),
    READS_NOT_FENCED(Rule.R5_6, "a resource that checks tokens at writes only"),
    TOKENS_NOT_CHECKED(Rule.R5_6, "a resource that checks no tokens"),

    DECLARES_WITHOUT_A_FAULT(Rule.R6_1, "declares to survive what its test cannot cause", Fault.CONNECTIONS_BROKEN),
    IMPOSSIBLE_AND_POSSIBLE(
            Rule.R6_1, "a test's Store that calls impossible what it can cause", Fault.CONNECTIONS_BROKEN),
    CLAIMS_IN_MEMORY(Rule.R6_2, "keeps claims in the server's memory, and declares its restart", Fault.SERVER_KILLED),
    CONNECTION_IS_THE_CLAIM(Rule.R6_2, "takes a broken connection for a release", Fault.CONNECTIONS_BROKEN),
    REPLICATED_LATER(Rule.R6_2, "answers before its replica has it, and declares failover", Fault.LEADER_KILLED),
    SERVES_WHEN_CUT_OFF(Rule.R6_2, "goes on granting on a leader that is cut off", Fault.LEADER_CUT_OFF),
    LEASE_BY_WALL_CLOCK(Rule.R6_2, "ends leases by the wall clock, and declares its steps", Fault.CLOCK_FORWARD),
    TOKENS_IN_MEMORY(Rule.R6_3, "keeps the counter in the server's memory", Fault.SERVER_KILLED),
    TOKEN_BY_WALL_CLOCK(Rule.R6_3, "takes the wall clock for a token", Fault.CLOCK_FORWARD, Fault.CLOCK_BACK),
    NEVER_RECONNECTS(Rule.R6_4, "never connects anew", Fault.CONNECTIONS_BROKEN),
    WAITER_NOT_BACK(Rule.R6_4, "forgets its place in the queue when the connection breaks", Fault.CONNECTIONS_BROKEN),
    TIMERS_IN_MEMORY(Rule.R6_4, "ends leases by timers that a restart forgets", Fault.SERVER_KILLED),
    HANGS(Rule.R6_5, "waits for an answer without an end", Fault.NETWORK_GONE),
    THROWS_ITS_OWN(Rule.R6_5, "lets the driver's exception through", Fault.CONNECTIONS_BROKEN, Fault.NETWORK_GONE),
    SILENCE_IS_NO(Rule.R6_5, "answers that it is held when the store gives no answer", Fault.NETWORK_GONE),
    DECLARES_TOO_LITTLE(Rule.R6_6, "survives a restart, and does not declare it", Fault.SERVER_KILLED),
    DECLARES_TOO_FEW_TOKENS(
            Rule.R6_6, "has tokens that survive the loss of data, and does not declare it", Fault.DATA_LOST),
    TOKENS_REPLICATED_LATER(
            Rule.R6_7, "gives a token again after a failover that tokens are declared to survive", Fault.LEADER_KILLED),
    SILENCE_IS_YES(Rule.R6_8, "takes silence for a renewal", Fault.NETWORK_GONE),

    ADOPT_NOTHING(Rule.R7_1, "gives no heir anything"),
    ADOPT_KEEPS_TOKEN(Rule.R7_1, "gives the heir the former owner's token"),
    ADOPT_AGAIN_RAISES(Rule.R7_2, "raises the token when the same heir asks again"),
    ADOPT_TWICE(Rule.R7_3, "gives a second heir what the first has taken over"),
    ADOPT_BESIDE(Rule.R7_4, "still renews for the former owner"),
    ADOPT_REVIVES(Rule.R7_5, "gives the heir what has ended"),
    OWNER_MADE_INSIDE(Rule.R7_6, "makes an owner of its own in acquire, and releases what acquire answered"),
    LOST_RENEWAL_IS_ENDED(Rule.R7_7, "answers ended when the answer to a renewal is lost"),
    RELEASE_AGAIN_BY_NAME(Rule.R7_8, "releases again by name when the first answer was lost"),
    LOST_ADOPT_IS_NOTHING(Rule.R7_9, "gives the heir nothing when it asks again after a lost answer"),
    GHOST_WITHOUT_LEASE(Rule.R7_10, "gives what arrives late no lease", Fault.REQUESTS_LATE),
    SAYS_NO_EFFECT(Rule.R7_11, "says that what had no answer had no effect"),
    RESENDS_WITH_NEW_OWNER(Rule.R7_12, "resends an acquire as another one", Fault.CONNECTIONS_BROKEN),
    RESENDS_WITH_LATER_SINCE(
            Rule.R7_12, "resends an acquire, and counts the lease from there", Fault.CONNECTIONS_BROKEN),
    REFUSAL_LENGTHENS(Rule.R7_13, "lengthens the holder's lease when another is refused"),
    HEIR_BEHIND_WAITERS(Rule.R7_14, "hands over by a release and an acquire");

    /** Judged in real time: by a test with threads, or over the whole run. */
    private static final List<Wrong> REAL = List.of(CHECK_THEN_ACT, HELD_IS_A_FAILURE);

    final Rule rule;
    final String what;

    /** Those that its store can cause: what it is wrong about. Nobody changes it. */
    @SuppressWarnings("ImmutableEnumChecker")
    final Set<Fault> faults;

    Wrong(Rule rule, String what, Fault... faults) {
        this.rule = rule;
        this.what = what;
        this.faults = Set.of(faults);
    }

    /** Whether scenarios find it, in virtual time; else a test with threads, or the whole run. */
    boolean isFoundByScenarios() {
        boolean directed = Directed.has(rule) || FaultRules.has(rule) || Unanswered.has(rule);
        return !REAL.contains(this) && (!directed || this == RELEASES_ALL_NAMES);
    }
}
