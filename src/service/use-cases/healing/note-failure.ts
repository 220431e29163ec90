import { causeKindOf } from '../../../foundation/domain/causes.ts';
import type { SluiceError } from '../../../foundation/domain/errors.ts';
import { noteCause, waitForCause } from '../../../state/store/healing/causes.ts';
import type { ClaimedRun } from '../../../state/store/runs/claims.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { holdBack, noteHealing } from '../../../state/store/healing/healing.ts';
import { KnownOutage, placeOf, type RunPlaces } from './known-outage.ts';

/** An attempt's failure, as what it says about its places. */
export interface Failure {
  readonly error: SluiceError;
  /** The text that `latest_error` shows. */
  readonly text: string;
  /** Null: they are not known, so it counts for the export alone. */
  readonly places: RunPlaces | null;
}

/** Notes what kept a run from its end; another attempt follows. */
export async function noteFailedAttempt(tx: Sql, run: ClaimedRun, failure: Failure): Promise<void> {
  const { error } = failure;
  if (error instanceof KnownOutage) return waitForCause(tx, run.runId, error.causeId);
  const kind = causeKindOf(error.code);
  // An export whose attempts fail for its own reasons is retried as ever.
  if (kind === null || kind.scope === 'export' || failure.places === null) return;
  const cause = await noteCauseOf(tx, run, failure, kind.scope, false);
  if (cause.isOpen) await waitForCause(tx, run.runId, cause.id);
}

/** Notes what ended a run without success: its interval heals, unless a person must decide. */
export async function noteEndedRun(tx: Sql, run: ClaimedRun, failure: Failure): Promise<void> {
  const { error } = failure;
  const kind = causeKindOf(error.code);
  if (kind === null || run.purpose !== 'whole') return;
  const causeId =
    error instanceof KnownOutage
      ? error.causeId
      : (await noteCauseOf(tx, run, failure, kind.scope, true)).id;
  await noteHealing(tx, run, causeId);
  if (run.heals && run.probes === null) await holdBack(tx, run.exportId, causeId);
}

function noteCauseOf(
  tx: Sql,
  run: ClaimedRun,
  { error, text, places }: Failure,
  wanted: Parameters<typeof placeOf>[1],
  isLasting: boolean,
) {
  const at = placeOf(run, wanted, places);
  return noteCause(tx, { teamId: run.teamId, ...at, code: error.code, text, isLasting });
}
