import type { ClaimedRun } from '../../src/store/leases.ts';
import type { Context } from '../../src/use-cases/context.ts';
import { recordCompletion } from '../../src/use-cases/runs/complete-run.ts';
import { plainRecipe } from './brief-receipts.ts';

/** The worker has committed a manifest that names no files. @returns false if its lease is lost */
export async function recordManifest(
  context: Context,
  run: ClaimedRun,
  put: { readonly manifestKey: string; readonly manifestEtag: string; readonly rows: number },
): Promise<boolean> {
  const completion = await recordCompletion(
    context,
    run,
    {
      recordsTotalCount: put.rows,
      recordsCompleted: put.rows,
      bytesExported: 0,
      files: 0,
      cursor: null,
      recordsDropped: 0,
      recordsRejected: 0,
      steps: [],
      snapshot: '1:1:',
      settled: true,
      pending: [],
      keyDigest: null,
      keyCount: 0,
    },
    {
      ...put,
      exportId: run.exportId,
      interval: run.interval,
      runId: run.runId,
      destinationVersion: run.destinationVersion,
      generation: run.fileGeneration,
      era: run.era,
      recipe: plainRecipe,
      deliveredDigest: null,
      files: [],
      rejectedFiles: [],
      bytes: 0,
    },
    [],
  );
  return completion !== null;
}
