import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { recordOncePerHour } from '../../../state/store/exports/activity.ts';
import type { Actor, Context } from '../context.ts';
import { exportActivity } from '../exports/activity.ts';

/** Lets the owner of an export know that an operator looked at it: once per key and hour. */
export async function recordLook(
  { db }: Pick<Context, 'db'>,
  actor: Actor,
  batchExport: Pick<BatchExport, 'id' | 'teamId'>,
): Promise<void> {
  const action = 'viewed by an operator' as const;
  await recordOncePerHour(db, { ...exportActivity(actor, action, batchExport, []), action });
}
