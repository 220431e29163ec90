import type { ClaimedRun } from '../../src/state/store/runs/claims.ts';
import { RunStatements } from '../../src/state/store/runs/run-statements.ts';
import type { Context } from '../../src/service/use-cases/context.ts';
import { recordCompletion } from '../../src/service/use-cases/runs/finish-run.ts';
import { plainRecipe } from './brief-receipts.ts';

/**
 * The worker has committed a manifest that names no files.
 *
 * @param proof what the source had
 * @param statements shared by runs that end at the same moment
 * @returns false if its lease is lost
 */
export async function recordManifest(
  context: Context,
  run: ClaimedRun,
  put: { readonly manifestKey: string; readonly manifestEtag: string; readonly rows: number },
  proof: {
    readonly snapshot: string;
    readonly keyDigest: string | null;
    readonly keyCount: number;
  } = { snapshot: '1:1:', keyDigest: null, keyCount: 0 },
  statements = new RunStatements(context.db, context.policy.leaseMs),
): Promise<boolean> {
  const completion = await recordCompletion(statements, run, {
    result: {
      totalRows: put.rows,
      rows: put.rows,
      bytes: 0,
      madeFiles: 0,
      droppedRows: 0,
      rejectedRows: 0,
      steps: [],
      ...proof,
      settled: true,
      pending: [],
    },
    receipt: {
      ...put,
      exportId: run.exportId,
      interval: run.interval,
      runId: run.runId,
      destinationVersion: run.destinationVersion,
      generation: run.fileGeneration,
      era: run.era,
      recipe: plainRecipe,
      manifestSha256: null,
      deliveredDigest: null,
      files: [],
      rejectedFiles: [],
      bytes: 0,
    },
    replaced: [],
    entries: [],
  });
  return completion !== null;
}
