import type { BatchExport } from '../../src/foundation/domain/batch-export.ts';
import type { Transactor } from '../../src/state/store/database/database.ts';
import { createBatchExport, type NewBatchExport } from '../../src/state/store/exports/exports.ts';

/**
 * Stores an export as a create does.
 *
 * @param maximum how many exports its project may have
 * @returns null if the project is full
 */
export async function storeExport(
  db: Transactor,
  created: NewBatchExport,
  maximum = 1_000_000,
): Promise<BatchExport | null> {
  const { id, teamId } = created;
  const [project] = await db.query<{ organizationId: string }>(
    'select organization_id as "organizationId" from projects where id = $1',
    [teamId],
  );
  const activity = {
    organizationId: project?.organizationId ?? null,
    teamId,
    subjectType: 'batch_export',
    subjectId: id,
    action: 'created',
    keyId: null,
    changes: [],
  } as const;
  return createBatchExport(db, maximum, created, activity);
}
