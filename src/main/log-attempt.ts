import { describeInterval } from '../foundation/domain/time.ts';
import type { Logger } from '../foundation/telemetry/logger.ts';
import { isOfPlace } from './place-lines.ts';
import type { AttemptEnd, AttemptReport } from '../service/worker/attempt-report.ts';

const messages: Record<Exclude<AttemptEnd, 'skipped'>, string> = {
  completed: 'run completed',
  failed: 'attempt failed',
  released: 'run handed back',
  lost: 'run lost to another attempt, or cancelled',
};

/**
 * One `info` line for each attempt of a run that ended in this worker. `ms` includes the claim. If a store or a source does not
 * work, the line is for `debug`: `PlaceLines` has one for all of its runs.
 */
export function logAttempt(
  logger: Logger,
  { run, end, fault, rows, bytes }: AttemptReport,
  seconds: number,
): void {
  if (!run || end === 'skipped') return;
  const { teamId: team, exportId, runId, attempt, interval } = run;
  const what = {
    team,
    export: exportId,
    run: runId,
    interval: describeInterval(interval),
    attempt,
  };
  const why = fault === null ? {} : { fault };
  logger[fault !== null && isOfPlace(fault) ? 'debug' : 'info'](
    { ...what, end, ...why, rows, bytes, ms: Math.round(seconds * 1_000) },
    messages[end],
  );
}
