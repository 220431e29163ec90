import {
  errorCatalogue,
  isErrorCode,
  type SluiceError,
} from '../../src/foundation/domain/errors.ts';
import { handOver, recordFault } from '../../src/service/use-cases/runs/finish-run.ts';
import { claim, complete, type RunSide } from './run-side.ts';

/** A place that fails with `error`, or works. Counts what is asked of it. */
export interface Place {
  error: SluiceError | null;
  requests: number;
}

export const placeOf = (error: SluiceError | null): Place => ({ error, requests: 0 });

/** Attempts at places, as workers make them. */
export function attemptsOf(side: RunSide) {
  /** One attempt as a worker makes it. */
  async function attempt(runId: string, place: Place): Promise<void> {
    await side.sql`update outbox set available_at = now() - interval '1 s', ready = true
      where run_id = ${runId}`;
    const run = await claim(side, runId);
    const { heldUpBy } = run;
    if (heldUpBy !== null && isErrorCode(heldUpBy) && errorCatalogue[heldUpBy].retryable) {
      await handOver(side.context, run, heldUpBy);
      return;
    }
    place.requests += 1;
    if (place.error) await recordFault(side.context, run, place.error, 0);
    else await complete(side.context, run);
  }

  /** Lets all live runs of the exports make attempts until none is left. @param place of all runs, or of each by its interval */
  async function work(
    exportIds: readonly string[],
    place: Place | ((start: string, exportId: string) => Place),
  ): Promise<void> {
    for (;;) {
      const runs = await side.sql<{ id: string; start: string; exportId: string }>`select r.id,
        r.data_interval_start as start, r.export_id as "exportId" from runs r join outbox o on
        o.run_id = r.id where r.export_id = any (${exportIds}::uuid[])
        order by (o.backfill_id is not null), r.data_interval_start`;
      if (runs.length === 0) return;
      for (const { id, start, exportId } of runs) {
        await attempt(id, typeof place === 'function' ? place(start, exportId) : place);
      }
    }
  }

  /** The time of every next attempt comes now. */
  const comeDue = () =>
    side.sql`with due as (update holes set next_try_at = now()) update batch_exports
      set heal_after = now() where heal_after is not null`;

  return { attempt, work, comeDue };
}
