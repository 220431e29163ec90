import type { IntervalResult } from '../../src/foundation/domain/receipt.ts';
import type { ClaimedRun } from '../../src/state/store/runs/claims.ts';
import { RunStatements } from '../../src/state/store/runs/run-statements.ts';
import type { Context } from '../../src/service/use-cases/context.ts';
import { completedRun } from './completed-run.ts';

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
  put: Pick<IntervalResult, 'manifestKey' | 'rows'> & { readonly manifestEtag: string },
  proof: Partial<IntervalResult> = {},
  statements = new RunStatements(context.db, context.policy.leaseMs),
): Promise<boolean> {
  return (await statements.complete(completedRun(run, { ...put, ...proof }))) !== null;
}
