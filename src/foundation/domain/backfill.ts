export const reprocessChoices = ['all', 'failed', 'missing', 'none'] as const;

/**
 * Which intervals a backfill exports: all, those without exported data, of these only the ones that were asked for (the
 * holes), or those never run at all.
 */
export type Reprocess = (typeof reprocessChoices)[number];
