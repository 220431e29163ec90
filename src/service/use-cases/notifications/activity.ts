import { isDeepStrictEqual } from 'node:util';
import { type Change, recordActivity } from '../../../state/store/exports/activity.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import type { NotificationTarget } from '../../../state/store/notifications/notification-targets.ts';
import type { Actor } from '../context.ts';

const fields = ['description', 'format', 'recipients', 'events', 'enabled', 'digests'] as const;

/** The changes between two states of a target. The URL shows only that it changed. */
export function targetChanges(before: NotificationTarget, after: NotificationTarget): Change[] {
  const changes: Change[] = fields
    .map((field) => ({ field, before: before[field], after: after[field] }))
    .filter((change) => !isDeepStrictEqual(change.before, change.after));
  if (!isDeepStrictEqual(before.secrets, after.secrets)) {
    changes.push({ field: 'url', before: before.urlPreview, after: after.urlPreview });
  }
  return changes;
}

/** Records who did what to a target, in the transaction of the change. */
export async function recordTargetActivity(
  tx: Sql,
  { organizationId, keyId }: Actor,
  { id, teamId }: Pick<NotificationTarget, 'id' | 'teamId'>,
  action: string,
  changes: readonly Change[] = [],
): Promise<void> {
  await recordActivity(tx, {
    organizationId,
    teamId,
    subjectType: 'notification_target',
    subjectId: id,
    action,
    keyId,
    changes,
  });
}
