/** `broken`: a promise does not hold. `unread`: something could not be read. `incomplete`: requested intervals have no data. */
export const verifyResults = ['broken', 'unread', 'incomplete', 'nothing_yet', 'proven'] as const;
export type VerifyResult = (typeof verifyResults)[number];

/** Results without a fault; the first one proves nothing either. */
export const soundVerifications: readonly string[] = ['nothing_yet', 'proven'];

/** Results that prove nothing. What is incomplete has events of its own. */
export const failedVerifications: readonly VerifyResult[] = ['broken', 'unread'];
