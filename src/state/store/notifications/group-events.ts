import type { NotificationType } from '../../../foundation/domain/notification.ts';
import type { Sql } from '../database/database.ts';

/** Records one event for the targets of an organization, or of one of its projects, that ask for it. */
export async function notifyGroup(
  tx: Sql,
  organizationId: string,
  teamId: number | null,
  type: NotificationType,
  facts: Readonly<Record<string, unknown>>,
): Promise<void> {
  await tx.query(`select notify_group($1, $2, $3, $4)`, [
    organizationId,
    teamId,
    type,
    JSON.stringify(facts),
  ]);
}
