import type { ClaimedRun } from '../../src/state/store/runs/claims.ts';
import type { CompletedRun } from '../../src/state/store/runs/completions.ts';
import { plainRecipe } from './brief-receipts.ts';

/** A run without rows whose manifest is current. */
export function completedRun(run: ClaimedRun, manifestKey = 'm.json'): CompletedRun {
  const { exportId, interval, runId, teamId, destinationVersion } = run;
  return {
    lease: run,
    result: {
      totalRows: 0,
      rows: 0,
      bytes: 0,
      madeFiles: 0,
      droppedRows: 0,
      rejectedRows: 0,
      steps: [],
      snapshot: '1:1:',
      settled: true,
      pending: [],
      keyDigest: null,
      keyCount: 0,
    },
    receipt: {
      ...{ exportId, interval, runId, destinationVersion, manifestKey },
      generation: run.fileGeneration,
      era: run.era,
      manifestEtag: '"1"',
      manifestSha256: null,
      files: [],
      rejectedFiles: [],
      recipe: plainRecipe,
      deliveredDigest: null,
      rows: 0,
      bytes: 0,
    },
    replaced: [],
    entries: [{ teamId, exportId, runId, level: 'INFO', message: 'Completed' }],
  };
}
