import type { ErasedValue } from '../../../foundation/domain/erased-value.ts';
import { orNotFound } from '../../../foundation/domain/problem.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import { lockExport } from '../../../state/store/exports/exports.ts';
import type { ClaimedRun } from '../../../state/store/runs/claims.ts';
import { insertRuns, sealErased } from '../../../state/store/runs/runs.ts';
import type { Context } from '../context.ts';
import { noteInLog } from '../exports/activity.ts';

/** The identity that the value of a run is sealed for. Also in the comment on `runs.erases`. */
const identityOf = (runId: string): string => `erasure:${runId}`;

/**
 * Makes runs that erase rows from the files of intervals. An interval with a live run gets none. Each run has the value
 * sealed, until it ends: it is in no log entry and in no job.
 *
 * @param request a UUID: the certificate of the erasure has it
 */
export async function eraseIntervals(
  { db, secrets }: Pick<Context, 'db' | 'secrets'>,
  exportId: string,
  intervals: readonly DataInterval[],
  { column, value }: ErasedValue,
  request: string,
): Promise<readonly string[]> {
  return db.transaction(async (tx) => {
    const batchExport = orNotFound(await lockExport(tx, exportId));
    const { teamId } = batchExport;
    const run = { exportId, teamId, backfillId: null, purpose: 'erase' as const };
    const runIds = await insertRuns(
      tx,
      intervals.map((interval) => ({ ...run, interval })),
    );
    for (const runId of runIds) {
      await sealErased(tx, runId, secrets.seal({ column, value }, identityOf(runId)), request);
    }
    const message = `The files of ${runIds.length} intervals are made again without the rows of one value, as an operator asked.`;
    if (runIds.length > 0) await noteInLog(tx, batchExport, 'INFO', message);
    return runIds;
  });
}

/** Opens the value that a claimed run erases; null if that is not its purpose. @throws SluiceError `secrets.undecryptable` */
export function openErased(
  { secrets }: Pick<Context, 'secrets'>,
  { runId, erases }: Pick<ClaimedRun, 'runId' | 'erases'>,
): ErasedValue | null {
  if (erases === null) return null;
  const { column, value } = secrets.open(erases, identityOf(runId));
  return { column: String(column), value: String(value) };
}
