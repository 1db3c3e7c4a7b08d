package dev.mortise.lock.tck;

/**
 * The rules, as in {@code docs/spec.md}: number, what MUST hold, why, what of {@link
 * dev.mortise.lock.spi.Guarantees} it depends on, and what to look at when a backend breaks it.
 */
enum Rule {
    R0_1(
            "guarantees() MUST give the same answer at every call, and one that makes sense: leases from the shortest to"
                    + " the longest, and freedWithin(lease) no shorter than the lease.",
            "Clients decide by it once, when they are built, and refuse what it does not offer.",
            Scope.ALWAYS,
            "Is it a constant? Is the time that the store takes to notice the end of a lease added in freedWithin?"),
    R0_2(
            "What outlivesClient says MUST be true: where it is declared, a claim lives on when its client is closed, until"
                    + " its lease ends; where it is not, adopt is refused with IllegalStateException.",
            "A hand-over needs leases that outlive their client. Declared too much, a ticket is worth nothing; too"
                    + " little, users of the store go without.",
            Scope.ALWAYS,
            "Does close() release, or end the session that claims live in? Is adopt overridden without the declaration?"),
    R0_3(
            "close() MUST be idempotent, and MUST NOT disturb other clients of the store.",
            "It runs in finally blocks, twice and late.",
            Scope.ALWAYS,
            "Does a second close throw? Does closing one client close what another uses?"),
    R0_4(
            "A store that is well MUST be answered for: \"somebody else holds it\" is an answer, never an exception.",
            "Callers take an exception for an unknown outcome, which they must undo and report.",
            Scope.ALWAYS,
            "Does the driver throw for a lost race (a duplicate key, a serialization failure), and is it passed on?"),
    R1_1(
            "At most one claim of a name MUST be live at a time.",
            "It is what a lock is for.",
            Scope.ALWAYS,
            "Is the judgement whether the lock is free and the taking of it one atomic step in the store?"),
    R1_2(
            "A lock that nobody can hold MUST be granted to whoever asks.",
            "A refusal says that somebody else holds it; a refusal without a holder is a lock that is lost to all.",
            Scope.ALWAYS,
            "What does acquire take for a holder? Is a failure (a timeout, a conflict) turned into held?"),
    R1_3(
            "Different names MUST be different locks, told apart by case, length and every character.",
            "Two names folded into one are a deadlock between strangers.",
            Scope.ALWAYS,
            "Is the key's column long enough, and compared by bytes (collation, padding with spaces)? Are names hashed with"
                    + " at least 128 bits? Does a call for one name touch the rows of another?"),
    R1_4(
            "Every name of 1 to 512 bytes of UTF-8 without unpaired surrogates MUST be usable.",
            "Users make names from their data.",
            Scope.ALWAYS,
            "Which characters are special to the store or its query language? Is the encoded name longer than a key may"
                    + " be?"),
    R1_5(
            "Acquire sent again for an owner whose claim is live MUST be granted with the same token.",
            "An answer that was lost is asked for again; a second token would turn the holder's own writes away.",
            Scope.ALWAYS,
            "Is the owner compared before the lock is called held? Is the token only raised for a new owner?"),
    R2_1(
            "release MUST end only the claim of its own owner.",
            "A late clean-up would otherwise free the lock of whoever holds it now.",
            Scope.ALWAYS,
            "Is the owner in the condition of the delete or the update, in the same atomic step?"),
    R2_2(
            "renew MUST neither report live nor lengthen a claim for an owner that does not hold it.",
            "A holder that was replaced would go on to count on its lease, or keep another's alive.",
            Scope.ALWAYS,
            "Is the owner in the condition of the renewal?"),
    R2_3(
            "renew of a grant MUST come back as ended once a later grant of the name was given.",
            "It is how a holder learns that it was replaced.",
            Scope.ALWAYS,
            "Does renew answer live for whatever exists under the name?"),
    R2_4(
            "After release has answered, the lock MUST be free.",
            "The next in line is told at that moment.",
            Scope.ALWAYS,
            "Is the answer given before the store has done it? Is something left that acquire takes for a holder?"),
    R2_5(
            "release MUST be idempotent, and MUST answer true only if this call ended a live grant.",
            "It is repeated until acknowledged; and false is how a holder learns that its lease had been lost.",
            Scope.ALWAYS,
            "Is the number of rows or keys that were changed looked at? Is an ended lease taken for live?"),
    R2_6(
            "A claim that has ended (released, expired, evicted) MUST NOT be revived by renew.",
            "Its holder has been told of the loss, and somebody else may have come and gone.",
            Scope.ALWAYS,
            "Does renew write where there is nothing (an upsert, a SET without XX)? Does it look at the end of the lease?"),
    R3_1(
            "A claim that is neither renewed nor released MUST end by itself within freedWithin(lease).",
            "Holders die.",
            Scope.ALWAYS,
            "Is there an end at all? Does freedWithin declare the store's lag?"),
    R3_2(
            "A claim MUST NOT end before its lease, counted from since.",
            "The holder counts on it, and so does what it protects.",
            Scope.ALWAYS,
            "Units, rounding (up, never down), clocks of two machines compared? Is the lease that was granted the one that"
                    + " the store keeps?"),
    R3_3(
            "since MUST be a reading taken before the send of the request that started or restarted the lease.",
            "Read when the answer arrives, it promises more than the store keeps by the time the answer took.",
            Scope.FAULTS,
            "Where is nanoTime() called? For renewals too?"),
    R3_4(
            "A claim MUST end although another claim of the same client is renewed.",
            "Where claims share a session or a lease, one proof of life would keep all of them alive.",
            Scope.ALWAYS,
            "Is there an end for each claim, moved only by renew of that very claim?"),
    R3_5(
            "A claim of a client that already has others MUST be live for its full lease from its own since.",
            "Where claims share a carrier that is older, since is the carrier's, or the grant promises too much.",
            Scope.ALWAYS,
            "Is since that of the request that last started the carrier's lease?"),
    R3_6(
            "In a renewal of several grants each MUST be judged by itself.",
            "One lost lease must not cost the others theirs.",
            Scope.ALWAYS,
            "Is the batch all or nothing (one condition, one transaction, one count of rows)?"),
    R3_7(
            "A claim that was renewed MUST be live for a full lease from the new since.",
            "It is what renewal is for.",
            Scope.ALWAYS,
            "Does renew write? Is it the store's clock that it counts from?"),
    R3_8(
            "A request that waits in the store MUST be judged by the time at which it is carried out, not by that at which"
                    + " it came.",
            "A lease that has ended during the wait is otherwise revived, given to an heir, or in the way of the next.",
            Scope.HOLD_UP,
            "Is the clock read after the lock or the row is had? (now() of a transaction, or a time that the client sends,"
                    + " is older.)"),
    R4_1(
            "With zero patience acquire MUST NOT wait for a release.",
            "tryAcquire() is asked on paths that cannot wait.",
            Scope.ALWAYS,
            "Does zero mean for ever to the driver?"),
    R4_2(
            "acquire MUST come back within its patience and the call timeout.",
            "A waiter that overstays keeps its caller and everybody behind it.",
            Scope.ALWAYS,
            "Is there one deadline for the whole wait, or one for each step?"),
    R4_3(
            "A waiter MUST get a lock that becomes free while it waits.",
            "A wake-up that is lost is a wait until the end of the patience.",
            Scope.ALWAYS,
            "Is the lock looked at once more after the watch or subscription is in place?"),
    R4_4(
            "A refusal MUST leave nothing of its owner in the store, queued or live.",
            "What is left takes the lock later, for nobody.",
            Scope.ALWAYS,
            "Is the place in the queue removed before held is answered?"),
    R4_5(
            "After an interrupted acquire and its release nothing of its owner MUST be left.",
            "Interrupts and cancelled futures are ordinary.",
            Scope.ALWAYS,
            "Does release end a claim that is still queued? Is an interrupt inside the driver handled?"),
    R4_6(
            "A wait longer than the lease MUST end in a grant that is live.",
            "A place in a queue is not a grant, and its own lease may have run out while it waited.",
            Scope.ALWAYS,
            "Is the own entry confirmed in the store after the wait, and since taken from that request?"),
    R4_7(
            "The rest in a refusal MUST NOT be longer than the holder's lease lets the claim live.",
            "The waiter sleeps that long.",
            Scope.ALWAYS,
            "Units? The rest of which lease?"),
    R5_1(
            "A token MUST be given to one grant of a name only.",
            "The resource cannot tell two holders with one token apart.",
            Scope.ALWAYS,
            "Is the token raised in the same atomic step that takes the lock?"),
    R5_2(
            "A token MUST be larger than those of all grants of the name that were answered before the acquire was sent.",
            "The resource turns the smaller away, and must not turn away the newer holder.",
            Scope.ALWAYS,
            "Is it one counter for a name, or one for a client or an owner? A random number, a clock?"),
    R5_3(
            "Holders that follow each other MUST have growing tokens, in the order in which they hold.",
            "The order at the resource is the order of the tokens.",
            Scope.ALWAYS,
            "Is the token drawn before the lock is taken?"),
    R5_4(
            "renew MUST keep the token.",
            "The holder has handed it to the resource already.",
            Scope.ALWAYS,
            "Does renew take the way of acquire?"),
    R5_5(
            "Tokens MUST go on growing after the lock was free.",
            "The counter must not go with the lock's record: the last holder's late write has the old token.",
            Scope.ALWAYS,
            "Is the counter deleted with the lock, or does it expire with it?"),
    R5_6(
            "A resource that refuses, at reads and writes, every token smaller than the largest it has seen MUST NOT lose an"
                    + " update.",
            "It is what tokens are for.",
            Scope.ALWAYS,
            "See 5.1 to 5.5; of your own resource: does it check reads too?"),
    R6_1(
            "Every event that the backend declares to survive MUST be one that the Store of its test can cause.",
            "A promise that was never put to the test is a hope.",
            Scope.ALWAYS,
            "Which Fault stands for the event? Add it to Faults.possible() and let Faults.begin() do it, or declare less."),
    R6_2(
            "Two claims of a name MUST NOT be counted on at a time, before, during and after each event of"
                    + " exclusionSurvives.",
            "It is what a lock is for, on the day on which it matters.",
            Scope.EXCLUSION_SURVIVES,
            "Is a grant answered before the store would still know it after the event? Does a new server or session grant"
                    + " what an old one has granted?"),
    R6_3(
            "Tokens MUST be unique and grow, before, during and after each event of tokensSurvive.",
            "The resource knows nothing of the store's servers: it compares numbers.",
            Scope.TOKENS_SURVIVE,
            "Is the token as durable as what is declared when it is handed out? Can what comes back be older than it?"),
    R6_4(
            "After an event, when the store is well again, every client MUST be answered, and every lock MUST be had again"
                    + " within what is declared.",
            "A lock that stays shut, a waiter that nobody wakes and a client that does not come back are found by people, at"
                    + " night.",
            Scope.EVENTS,
            "Does a client make its connection, session and subscription anew? Who ends what was granted before and during"
                    + " the event? Does a waiter look again after it?"),
    R6_5(
            "While a fault lasts, each call MUST end within its patience and the call timeout, by an answer of the store or"
                    + " by LockStoreException.",
            "Callers have deadlines of their own, and silence is not an answer.",
            Scope.EVENTS,
            "Has every wait in the driver an end? What becomes of the driver's own exceptions, and of a timeout?"),
    R6_6(
            "An event that is not declared, and can be caused, MUST be seen to break what is not declared, and nothing"
                    + " else.",
            "Declared too little, users of the store go without; and what is known to be unsafe is to be seen, once, by"
                    + " whoever decides to live with it.",
            Scope.EVENTS,
            "Does the backend survive the event? Then declare it. If it does not: does the fault take away what it should?"),
    R6_7(
            "A resource that checks tokens MUST NOT lose an update through any event of tokensSurvive, whatever becomes of"
                    + " exclusion.",
            "It is why there are tokens.",
            Scope.TOKENS_SURVIVE,
            "See 6.3; of your own resource: does it check reads too?"),
    R6_8(
            "A holder MUST be told of its loss by its deadline, whatever befalls the store, and nothing but an answer of the"
                    + " store may move that.",
            "It stops then; a renewal that nobody has answered is a promise that nobody keeps.",
            Scope.EVENTS,
            "What does renew answer when the store does not? From when is since?"),
    R7_1(
            "adopt MUST give the lock of a live claim to the heir, with a larger token.",
            "The former owner's late writes are told from the heir's by it.",
            Scope.OUTLIVES_CLIENT,
            "Is the token raised in the same step?"),
    R7_2(
            "adopt asked again by the same heir MUST give the same token.",
            "Its first answer may have been lost.",
            Scope.OUTLIVES_CLIENT,
            "Is it looked at first whether the heir is the owner already?"),
    R7_3(
            "A second heir MUST get empty, and change nothing.",
            "A ticket can be copied.",
            Scope.OUTLIVES_CLIENT,
            "Are owner and token of the held grant in the condition?"),
    R7_4(
            "After adopt the former owner's renew and release MUST NOT touch the claim.",
            "It may not know yet.",
            Scope.OUTLIVES_CLIENT,
            "Is the owner replaced, or is the heir written beside it?"),
    R7_5(
            "adopt of a claim that has ended MUST give empty.",
            "Somebody else may have held the lock since.",
            Scope.OUTLIVES_CLIENT,
            "Is the end of the lease in the condition?"),
    R7_6(
            "release MUST work for an acquire whose answer was lost: nothing of its owner is left.",
            "Nobody counts on such a claim, and nobody else could end it.",
            Scope.FAULTS,
            "Is the owner in the store the claim's own, or made in the call? Does release need what acquire answered?"),
    R7_7(
            "A renewal whose answer was lost MUST come back as unknown, or as live by a second answer, and never as ended.",
            "The claim is live: its holder would stop for nothing. Taken for live without an answer, it would never stop.",
            Scope.FAULTS,
            "Is a broken connection or a timeout turned into ended? What of the second try of the driver?"),
    R7_8(
            "release asked again after its answer was lost MUST leave the lock free, and the claim of the next holder alone.",
            "It is repeated until acknowledged, and somebody else may hold the lock by then.",
            Scope.FAULTS,
            "Is the owner in the condition each time?"),
    R7_9(
            "adopt asked again after its answer was lost MUST give the same heir the lock, and nothing to the former owner.",
            "The ticket is used up: nobody else can take over now.",
            Scope.ADOPTIONS,
            "Is it looked at first whether the heir is the owner already?"),
    R7_10(
            "An acquire that arrives after its release MUST be gone within freedWithin of its lease.",
            "Nobody counts on such a claim, or knows of it.",
            Scope.EVENTS,
            "Is the lease a part of the very request that takes the lock?"),
    R7_11(
            "A call that took effect and whose answer was lost MUST NOT say that it had none.",
            "What has certainly had no effect is not undone.",
            Scope.FAULTS,
            "Which failures come before the send? All others have mayHaveTakenEffect()."),
    R7_12(
            "When connections break, what is sent again by itself MUST NOT be refused for its own first sending, nor bring a"
                    + " second token, or a grant of more than the store keeps.",
            "A driver that resends does it behind the backend's back, with a lease that began at the first send.",
            Scope.EVENTS,
            "Does the driver resend by itself? Is since read before the first send? Is the owner the same in both?"),
    R7_13(
            "After a chain of acquires without answers, of leases of different length, the lock MUST be free when the longest"
                    + " is over, and at once when all were released.",
            "They come in a row when a network is bad, each with an owner of its own.",
            Scope.FAULTS,
            "Does a refused or repeated acquire leave something, or lengthen the lease of another?"),
    R7_14(
            "An heir MUST come before all who wait, and of several heirs that come at a time one MUST get the lock.",
            "The lock is not free in between.",
            Scope.OUTLIVES_CLIENT,
            "Is the owner replaced in one atomic step, without a release?"),

    C1_1(
            "A lease MUST NOT be counted on by two clients at a time.",
            "Rule 1.1 as users see it: isHeld() of both.",
            Scope.CLIENT,
            ""),
    C3_1(
            "The client MUST count the deadline from a moment before the send, and by the lease that was granted.",
            "An answer that was under way for long is worth that much less.",
            Scope.CLIENT,
            ""),
    C3_2(
            "isHeld MUST be false from the deadline on, and a running client's holder MUST be told by then.",
            "The store may have given the lock away at that moment.",
            Scope.CLIENT,
            ""),
    C3_3("A lease that is over MUST NOT be held again.", "Its holder has stopped.", Scope.CLIENT, ""),
    C3_4(
            "A lease of a client that is well and whose store answers MUST NOT be lost.",
            "It is renewed in time.",
            Scope.CLIENT,
            ""),
    C3_5(
            "A lease that was taken away MUST be lost by its next renewal that is answered.",
            "What the store says must be heard.",
            Scope.CLIENT,
            ""),
    C3_6(
            "A renewal without an answer MUST neither lengthen a lease nor end it before its deadline.",
            "It is the third answer, unknown.",
            Scope.CLIENT,
            ""),
    C4_1(
            "A wait MUST end within its patience and the call timeout.",
            "One deadline for the whole wait.",
            Scope.CLIENT,
            ""),
    C4_2(
            "A waiter whose client is well MUST get a lock that is free.",
            "Nobody in the line is forgotten.",
            Scope.CLIENT,
            ""),
    C7_1(
            "An acquire whose outcome is unknown MUST be released, until the store acknowledges it.",
            "It may have taken effect, for nobody.",
            Scope.CLIENT,
            ""),
    C7_2(
            "An acquire that may arrive after its release MUST be released once more a lease later.",
            "A ghost otherwise stays for a lease after it arrived.",
            Scope.CLIENT,
            ""),
    C7_3(
            "Every attempt MUST have an owner of its own, also after an undo.",
            "The undo of one attempt otherwise ends the next.",
            Scope.CLIENT,
            ""),
    C7_4(
            "A lease that is released, or lost, MUST be released in the store.",
            "The next waits for it.",
            Scope.CLIENT,
            "");

    /** When a rule applies. */
    enum Scope {
        ALWAYS("always"),
        FAULTS("always; shown where the Store has Faults"),
        HOLD_UP("always; shown where the Store has Faults with holdUp"),
        OUTLIVES_CLIENT("outlivesClient"),
        ADOPTIONS("outlivesClient; shown where the Store has Faults"),
        EXCLUSION_SURVIVES("exclusionSurvives; shown for the events that the Store's Faults can cause"),
        TOKENS_SURVIVE("tokensSurvive; shown for the events that the Store's Faults can cause"),
        EVENTS("always; shown for the events that the Store's Faults can cause"),
        CLIENT("the client's, for every store");

        final String text;

        Scope(String text) {
            this.text = text;
        }
    }

    final String must;
    final String intent;
    final Scope scope;
    final String check;

    Rule(String must, String intent, Scope scope, String check) {
        this.must = must;
        this.intent = intent;
        this.scope = scope;
        this.check = check;
    }

    /** As in spec.md: 2.3 of a backend, C3.2 of the client. */
    String number() {
        String n = name().replace('_', '.');
        return n.startsWith("R") ? n.substring(1) : n;
    }

    @Override
    public String toString() {
        return number() + " " + must;
    }
}
