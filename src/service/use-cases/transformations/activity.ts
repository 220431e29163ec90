import { type Change, recordActivity } from '../../../state/store/exports/activity.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import type { Actor } from '../context.ts';

/** Records who did what to a step, in the transaction of the change. */
export async function recordStepActivity(
  tx: Sql,
  { organizationId, keyId }: Actor,
  { teamId, id }: { readonly teamId: number; readonly id: number },
  action: string,
  changes: readonly Change[] = [],
): Promise<void> {
  await recordActivity(tx, {
    organizationId,
    teamId,
    subjectType: 'transformation_config',
    subjectId: String(id),
    action,
    keyId,
    changes,
  });
}
