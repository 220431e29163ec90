import type { ClaimedRun } from '../../src/state/store/runs/claims.ts';
import type { Database } from '../../src/state/store/database/database.ts';
import { type LineageUpload, openUploadsOf } from '../../src/state/store/files/uploads.ts';

/** The uploads that the next attempt of a run would get. */
export async function listUploads(
  db: Database,
  { runId, destinationVersion }: Pick<ClaimedRun, 'runId' | 'destinationVersion'>,
): Promise<readonly LineageUpload[]> {
  const [row] = await db.query<{ uploads: LineageUpload[] }>(
    `select ${openUploadsOf('$1::uuid', '$2::int')} as uploads`,
    [runId, destinationVersion],
  );
  return row?.uploads ?? [];
}
