package dev.mortise.lock.redlock;

/** A mistake put into the protocol, to see that the simulation finds it. Numbers as in the report on the protocol. */
enum Mutant {
    /** The protocol as it is. */
    NONE,
    // In the scripts.
    M02_FENCE_NOT_CHECKED,
    M03_RELEASE_RESETS_FENCE,
    M04_JOIN_WITHOUT_FLOOR,
    M05_READY_NOT_WAITED_FOR,
    M08_RENEW_RECREATES,
    M11_EQUAL_TOKEN_ACCEPTED,
    M12_OWNER_OK_FOR_ANY_TOKEN,
    M13_JOIN_WITHOUT_MARK_CHECK,
    M17_RENEW_IGNORES_OWNER,
    M18_RELEASE_IGNORES_OWNER,
    M21_NO_RUN_ID_CHECK,
    M26_MARK_FROM_MESSAGE,
    M28_EXPIRED_FENCE_IS_ZERO,
    M30_RENEW_WITHOUT_MEMORY,
    M31_READY_NOT_CLAMPED,
    M32_TERMS_NOT_CHECKED,
    M33_HIGH_NOT_RAISED,
    M35_LEASE_NOT_SET,
    M39_KEYS_OF_BEFORE_THE_LOSS_COUNT,
    M41_KEPT_TOKEN_NOT_IN_HIGH,
    M42_OLD_KEY_NOT_CUT,
    // Between the client and its servers, or in how it waits: what the client would do with the mistake in it.
    M01_TOKENS_COUNTED_TOGETHER,
    M06_JOIN_READS_TOO_FEW,
    M07_DEADLINE_FROM_REPLY,
    M09_OWNER_USED_AGAIN,
    M10_HALF_IS_ENOUGH,
    M16_RENEWED_FROM_REPLY,
    M22_RENEW_HALF_IS_ENOUGH,
    M23_NOTHING_GIVEN_BACK,
    M24_INIT_WITHOUT_FLOOR,
    M25_JOIN_VOTES_AT_ONCE,
    M27_NO_ATTEMPT_CAP,
    M36_JOIN_WITHOUT_WAIT,
    M37_REFUSALS_TEACH_NOTHING,
    M38_MARKS_FORGOTTEN,
    M40_CLOCK_PROPOSED_AGAIN,
    M43_WAIT_FROM_AN_OLDER_MARK,
    // In the resource that the tokens guard: that F5 can be broken at all.
    R01_RESOURCE_IGNORES_TOKENS,
}
