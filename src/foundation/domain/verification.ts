/**
 * What a verification has found of an export. `broken`: a promise does not hold. `unread`: its files or its source could not be
 * read to the end. `incomplete`: requested intervals have no data. `proven`: the files contain each source row exactly once.
 */
export const verifyResults = ['broken', 'unread', 'incomplete', 'proven'] as const;
export type VerifyResult = (typeof verifyResults)[number];

/** Results that prove nothing. What is incomplete has events of its own. */
export const failedVerifications: readonly VerifyResult[] = ['broken', 'unread'];
