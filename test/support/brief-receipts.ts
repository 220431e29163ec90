/** How rows of a test were made, if that does not matter. */
export const plainRecipe = {
  format: 'JSONLines',
  compression: null,
  dslQuery: null,
  includeEvents: null,
  excludeEvents: null,
} as const;

/** Lets statements of a test leave out columns of receipts that it is not about. */
export async function allowBriefReceipts(db: {
  query(sql: string): Promise<unknown>;
}): Promise<void> {
  await db.query(
    `alter table receipts alter era set default gen_random_uuid(), alter destination_version set default 0,
       alter generation set default 1, alter rejected_files set default '[]', alter recipe set default '${JSON.stringify(plainRecipe)}',
       alter snapshot set default '1:1:', alter settled set default true, alter pending_transactions set default '{}',
       alter key_count set default 0, alter pending_checked_at set default now(), alter looked_back_at set default now()`,
  );
}
