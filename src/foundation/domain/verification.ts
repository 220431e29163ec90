/**
 * The result of an export's verification. `broken`: a promise does not hold. `unread`: its files or its source could not be
 * read to the end. `incomplete`: requested intervals have no data. `nothing_yet`: no interval has been exported, so nothing is proven.
 * `proven`: the files contain each source row exactly once.
 */
export const verifyResults = ['broken', 'unread', 'incomplete', 'nothing_yet', 'proven'] as const;
export type VerifyResult = (typeof verifyResults)[number];

/** Results without a fault; the first one proves nothing either. */
export const soundVerifications: readonly string[] = ['nothing_yet', 'proven'];

/** Results that prove nothing. What is incomplete has events of its own. */
export const failedVerifications: readonly VerifyResult[] = ['broken', 'unread'];
