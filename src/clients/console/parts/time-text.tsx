import { useNow } from '../now.ts';
import { createTimeFormat, formatRelative, formatUtc } from '../times.ts';

/** In the reader's language and zone. */
export const times = createTimeFormat();

interface Props {
  readonly at: string;
  readonly as?: 'moment' | 'relative' | 'clock';
}

/** A time in the reader's zone; in UTC on hover. */
export function TimeText({ at, as = 'moment' }: Props) {
  const now = useNow();
  const text =
    as === 'relative'
      ? formatRelative(at, now)
      : as === 'clock'
        ? times.clock(at)
        : times.moment(at, now);
  return (
    <time dateTime={at} title={formatUtc(at)}>
      {text}
    </time>
  );
}

/** A data interval in the reader's zone; in UTC on hover. */
export function IntervalText({ start, end }: { start: string | null; end: string }) {
  const now = useNow();
  const utc = start === null ? formatUtc(end) : `${formatUtc(start)} – ${formatUtc(end)}`;
  return <span title={utc}>{times.interval(start, end, now)}</span>;
}
