import type { Run } from '../api-types.ts';
import { useNow } from '../now.ts';
import { formatCount } from '../numbers.ts';
import { formatDuration } from '../times.ts';

/** From the moment it was due to its end, or to now. */
export function RunDuration({ run: { created_at, finished_at } }: { run: Run }) {
  const now = useNow(1_000);
  const end = finished_at === null ? now : Date.parse(finished_at);
  return <span>{formatDuration(end - Date.parse(created_at))}</span>;
}

/** Rows in the files; beside all of the interval where that is another number. */
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
