import type { Run } from '../api-types.ts';
import { useNow } from '../now.ts';
import { formatCount } from '../numbers.ts';
import { formatDuration } from '../times.ts';

/** The element of mode changes that a run has delivered. */
export function ElementOfRun({ run: { element } }: { run: Pick<Run, 'element'> }) {
  if (!element) return null;
  return (
    <small className="muted">
      {' '}
      in {element.base === null ? 'element' : 'base'} {element.number}
    </small>
  );
}

/** The wait of the run for its first attempt, and the time from there to its end, or to now. */
export function RunDuration({ run: { created_at, started_at, finished_at } }: { run: Run }) {
  const now = useNow(1_000);
  const end = finished_at === null ? now : Date.parse(finished_at);
  const start = started_at === null ? end : Date.parse(started_at);
  const waited = formatDuration(start - Date.parse(created_at));
  return (
    <span>
      waited {waited}
      {started_at !== null && `, ran ${formatDuration(end - start)}`}
    </span>
  );
}

/** Rows in the files, and the rows of the interval if the numbers differ. */
export function RunRows({ run }: { run: Run }) {
  const { records_completed: done, records_total_count: total } = run;
  const short = total !== null && done !== total;
  return (
    <span>
      {formatCount(done)}
      {short && <small className="muted"> of {formatCount(total)}</small>}
      <ElementOfRun run={run} />
    </span>
  );
}
