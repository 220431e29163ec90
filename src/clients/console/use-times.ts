import { createContext, useContext, useSyncExternalStore } from 'react';
import { createTimeFormat, type TimeFormat } from './times.ts';

/** In whose zone the page shows times: the reader's, UTC, or that of the export which is open. */
export const clocks = { local: 'Your time', utc: 'UTC', export: "The export's zone" } as const;
export type Clock = keyof typeof clocks;

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

export function setClock(chosen: Clock): void {
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

export function useClock(): Clock {
  return useSyncExternalStore(subscribe, () => clock);
}
