import { createContext, useContext, useEffect, useState, useSyncExternalStore } from 'react';
import {
  createTimeFormat,
  formatAgo,
  formatRelative,
  formatUtc,
  type TimeFormat,
} from '../times.ts';

/** The current time in milliseconds since the Unix epoch, updated while the page is visible. */
export function useNow(everyMs = 15_000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) setNow(Date.now());
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** The present month and the eleven before it, in UTC, newest first. */
export function lastMonths(now: number): readonly string[] {
  const at = new Date(now);
  return Array.from({ length: 12 }, (_, back) =>
    new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() - back)).toISOString().slice(0, 7),
  );
}

/** In whose zone the page shows times: the reader's, UTC, or that of the export which is open. */
const clocks = { local: 'Your time', utc: 'UTC', export: "The export's zone" } as const;
type Clock = keyof typeof clocks;

const item = 'sluice-clock';

/** The zone of the export that a part of the page is about; UTC, the default of exports, if it is about none. */
export const ExportZone = createContext('UTC');

let clock = readClock();
const listeners = new Set<() => void>();
const formats = new Map<string | undefined, TimeFormat>();

function readClock(): Clock {
  // Tests of pure modules have no storage.
  const stored = typeof sessionStorage === 'undefined' ? null : sessionStorage.getItem(item);
  return stored !== null && stored in clocks ? (stored as Clock) : 'local';
}

function setClock(chosen: Clock): void {
  sessionStorage.setItem(item, chosen);
  clock = chosen;
  for (const notify of listeners) notify();
}

function subscribe(notify: () => void): () => void {
  listeners.add(notify);
  return () => listeners.delete(notify);
}

/** The formats of the chosen clock; components that use it follow the switch. */
export function useTimes(): TimeFormat {
  const exportZone = useContext(ExportZone);
  const zone = { local: undefined, utc: 'UTC', export: exportZone }[useClock()];
  const times = formats.get(zone) ?? createTimeFormat(undefined, zone);
  formats.set(zone, times);
  return times;
}

function useClock(): Clock {
  return useSyncExternalStore(subscribe, () => clock);
}

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

/** A time in UTC, as the API writes it into messages. */
const time = /(\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/;

/** A message of the service, such as an error or a line of a log. The times in it are by the chosen clock. */
export function MessageText({ text }: { readonly text: string }) {
  // The parts alternate: a text, then a time.
  return text.split(time).map((part, index) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: parts have no id, and may be alike.
    index % 2 === 1 ? <TimeText key={index} at={part} as="stamp" /> : part,
  );
}
