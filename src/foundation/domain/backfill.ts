export const reprocessChoices = ['all', 'failed', 'missing', 'none'] as const;

/** Which intervals it exports: all, those without data, of these those that were asked for, or those never run at all. */
export type Reprocess = (typeof reprocessChoices)[number];
