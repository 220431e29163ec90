import { useSyncExternalStore } from 'react';
import { createTimeFormat, type TimeFormat } from './times.ts';

/** In whose zone the page shows times: the reader's, UTC, or that of the export which is open. */
export const clocks = { local: 'Your time', utc: 'UTC', export: "The export's zone" } as const;
export type Clock = keyof typeof clocks;

const item = 'sluice-clock';

interface State {
  readonly clock: Clock;
  readonly times: TimeFormat;
}

/** Without an open export its zone is UTC, the default of exports. */
let exportZone = 'UTC';
let state = stateOf(readClock());
const listeners = new Set<() => void>();

function readClock(): Clock {
  // Tests of pure modules have no storage.
  const stored = typeof sessionStorage === 'undefined' ? null : sessionStorage.getItem(item);
  return stored !== null && stored in clocks ? (stored as Clock) : 'local';
}

function stateOf(clock: Clock): State {
  const zones = { local: undefined, utc: 'UTC', export: exportZone };
  return { clock, times: createTimeFormat(undefined, zones[clock]) };
}

function change(clock: Clock): void {
  state = stateOf(clock);
  for (const notify of listeners) notify();
}

export function setClock(clock: Clock): void {
  sessionStorage.setItem(item, clock);
  change(clock);
}

/** The zone of the export whose page is open. */
export function setExportZone(zone: string): void {
  if (zone === exportZone) return;
  exportZone = zone;
  change(state.clock);
}

function subscribe(notify: () => void): () => void {
  listeners.add(notify);
  return () => listeners.delete(notify);
}

/** The formats of the chosen clock; components that use it follow the switch. */
export function useTimes(): TimeFormat {
  return useSyncExternalStore(subscribe, () => state).times;
}

export function useClock(): Clock {
  return useSyncExternalStore(subscribe, () => state).clock;
}
