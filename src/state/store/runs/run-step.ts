import type { StepNow } from '../../../foundation/domain/run-step.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';

/** The step of an attempt, and its start. */
export interface RunStepSeen extends StepNow {
  readonly since: Timestamp;
  /** Seconds of a usual run of its export; null: none has completed. */
  readonly usual: number | null;
}

/** SQL of a `RunStepSeen` of the run `r`; only of a run in progress is it looked up how long others took. */
export const stepOfRun = `case when r.status = 'Running' and r.step is not null and r.lease_expires_at > now() then jsonb_build_object(
    'name', r.step, 'since', api_time(r.step_since), 'seconds', extract(epoch from now() - r.step_since), 'usual', (
      select percentile_cont(0.5) within group (order by extract(epoch from u.finished_at - u.started_at)::float8)
        from (select o.finished_at, o.started_at from runs o where o.export_id = r.export_id and o.status = 'Completed'
               order by o.created_at desc limit 20) u)) end`;
