import {
  findOrphanedUploadRuns,
  findUploadOwner,
  forgetUpload,
  listUploads,
} from '../store/uploads.ts';
import type { ExecutorOptions } from './execute-run.ts';

/** Runs whose uploads are collected in one sweep. */
const runsPerSweep = 20;

/**
 * Aborts uploads of ended runs that their worker could not abort any more: it was killed, or the
 * destination was away. What cannot be aborted now is tried again by the next sweep.
 */
export async function collectUploads(options: ExecutorOptions): Promise<void> {
  const { db } = options.context;
  for (const runId of await findOrphanedUploadRuns(db, runsPerSweep)) {
    await collectRun(options, runId).catch(options.onSweepError);
  }
}

async function collectRun(options: ExecutorOptions, runId: string): Promise<void> {
  const { db, secrets } = options.context;
  const owner = await findUploadOwner(db, runId);
  if (!owner) return;
  const { type, config, secrets: sealed } = owner.destination;
  const opened = sealed ? secrets.open(sealed, owner.exportId) : {};
  const destination = options.plugins.openDestination(
    type,
    { ...config, ...opened },
    { externalId: owner.externalId },
  );
  try {
    for (const upload of await listUploads(db, runId)) {
      await destination.abortUpload(upload);
      await forgetUpload(db, runId, upload);
    }
  } finally {
    await destination.close();
  }
}
