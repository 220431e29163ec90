import { SluiceError } from '../../src/foundation/domain/errors.ts';
import { endCauses } from '../../src/service/use-cases/healing/end-causes.ts';
import {
  beginAtPlaces,
  causesAt,
  type RunPlaces,
} from '../../src/service/use-cases/healing/known-outage.ts';
import { recordFault } from '../../src/service/use-cases/runs/finish-run.ts';
import type { ClaimedRun } from '../../src/state/store/runs/claims.ts';
import { claim, complete, type RunSide } from './run-side.ts';

/** A place that fails with `error`, or works. Counts what is asked of it. */
export interface Place {
  name: string;
  error: SluiceError | null;
  requests: number;
}

let count = 0;

export const placeOf = (error: SluiceError | null): Place => ({
  name: `place ${++count}`,
  error,
  requests: 0,
});

/** Attempts at places, as workers make them. */
export function attemptsOf(side: RunSide) {
  /** One attempt as a worker makes it. */
  async function attempt(runId: string, place: Place, source = 'events'): Promise<void> {
    await side.db.query(
      `update outbox set available_at = now() - interval '1 s', ready = true where run_id = $1`,
      [runId],
    );
    const run = await claim(side, runId);
    const places: RunPlaces = { destination: place.name, source };
    try {
      await beginAtPlaces(side.db, run, places);
      place.requests += 1;
      if (place.error) throw place.error;
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error;
      await recordFault(side.context, run, error, 0, { places, sourceWorked: false });
      return;
    }
    await complete(side.context, run);
    await endAll(run, places);
  }

  const endAll = (run: ClaimedRun, places: RunPlaces) =>
    endCauses(
      side.db,
      causesAt(run, places).map(({ id }) => id),
    );

  /** Lets all live runs of the exports make attempts until none is left. */
  async function work(exportIds: readonly string[], place: Place): Promise<void> {
    for (;;) {
      const runs = await side.db.query<{ id: string }>(
        `select r.id from runs r join outbox o on o.run_id = r.id where r.export_id = any ($1::uuid[])
          order by (o.backfill_id is not null), r.data_interval_start`,
        [exportIds],
      );
      if (runs.length === 0) return;
      for (const { id } of runs) await attempt(id, place);
    }
  }

  return { attempt, work };
}
