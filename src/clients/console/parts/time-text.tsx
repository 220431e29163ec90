import { useNow } from '../now.ts';
import { createTimeFormat, formatAgo, formatRelative, formatUtc } from '../times.ts';
import { type Clock, clocks, setClock, useClock, useTimes } from '../use-times.ts';

/** For inputs of the browser, which are in the reader's zone whatever the page shows. */
export const localTimes = createTimeFormat();

interface Props {
  readonly at: string;
  readonly as?: 'moment' | 'relative' | 'ago' | 'stamp';
}

/** A time by the chosen clock, with its zone; in UTC on hover. */
export function TimeText({ at, as = 'moment' }: Props) {
  const now = useNow();
  const times = useTimes();
  const text = {
    relative: () => formatRelative(at, now),
    ago: () => formatAgo(at, now),
    stamp: () => times.stamp(at, now),
    moment: () => times.moment(at, now),
  }[as]();
  return (
    <time dateTime={at} title={formatUtc(at)}>
      {text}
    </time>
  );
}

/** A data interval by the chosen clock; in UTC on hover. */
export function IntervalText({ start, end }: { start: string | null; end: string }) {
  const now = useNow();
  const times = useTimes();
  const utc = start === null ? formatUtc(end) : `${formatUtc(start)} – ${formatUtc(end)}`;
  return <span title={utc}>{times.interval(start, end, now)}</span>;
}

/** Switches the clock of the whole page. */
export function ClockSwitch() {
  const clock = useClock();
  return (
    <select
      className="project"
      aria-label="Time zone of the page"
      value={clock}
      onChange={({ target }) => setClock(target.value as Clock)}
    >
      {Object.entries(clocks).map(([value, name]) => (
        <option key={value} value={value}>
          {name}
        </option>
      ))}
    </select>
  );
}
