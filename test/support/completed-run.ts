import type { IntervalResult } from '../../src/foundation/domain/receipt.ts';
import type { ClaimedRun } from '../../src/state/store/runs/claims.ts';
import type { CompletedRun } from '../../src/state/store/runs/completions.ts';
import { plainRecipe } from './brief-receipts.ts';

/** A run without files whose manifest is current. */
export function completedRun(run: ClaimedRun, put: Partial<IntervalResult> = {}): CompletedRun {
  const { exportId, runId, teamId } = run;
  return {
    run,
    result: {
      totalRows: put.rows ?? 0,
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
      generation: run.fileGeneration,
      era: run.era,
      manifestKey: 'm.json',
      manifestEtag: '"1"',
      manifestSha256: null,
      files: [],
      rejectedFiles: [],
      recipe: plainRecipe,
      deliveredDigest: null,
      ...put,
    },
    replaced: [],
    entries: [{ teamId, exportId, runId, level: 'INFO', message: 'Completed: 0 rows.' }],
  };
}
