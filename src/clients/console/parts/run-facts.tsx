import type { Run } from '../api-types.ts';
import { useNow } from '../now.ts';
import { formatCount } from '../numbers.ts';
import { formatDuration } from '../times.ts';

/** The time from the creation of the run to its end, or to now. */
export function RunDuration({ run: { created_at, finished_at } }: { run: Run }) {
  const now = useNow(1_000);
  const end = finished_at === null ? now : Date.parse(finished_at);
  return <span>{formatDuration(end - Date.parse(created_at))}</span>;
}

/** Rows in the files, and the rows of the interval if the numbers differ. */
export function RunRows({ run }: { run: Run }) {
  const { records_completed: done, records_total_count: total } = run;
  const short = total !== null && done !== total;
  return (
    <span>
      {formatCount(done)}
      {short && <small className="muted"> of {formatCount(total)}</small>}
    </span>
  );
}
