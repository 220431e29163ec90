import type { Coverage } from './api-types.ts';
import { intervalMs } from './export-health.ts';
import { plural } from './numbers.ts';

type Range = Coverage['ranges'][number];
export type CoverageState = Range['state'];

/** The pattern of a state, without its colour, and its name. The most urgent state is first. */
export const stateLooks: Readonly<Record<CoverageState, readonly [glyph: string, name: string]>> = {
  failed: ['×', 'failed'],
  missing: ['?', 'missing'],
  cancelled: ['–', 'cancelled'],
  healing: ['⟳', 'healing'],
  late_rows: ['+', 'late rows wait for you'],
  unsettled: ['~', 'unsettled'],
  retrying: ['↻', 'retrying'],
  running: ['▸', 'running'],
  paused: ['‖', 'paused'],
  never_asked: ['', 'never asked for'],
  superseded: ['»', 'superseded by a later one'],
  accepted: ['≈', 'accepted as it is'],
  done: ['✓', 'done'],
};

/** A cell with several states shows the first one. */
const urgency = Object.keys(stateLooks) as CoverageState[];

/** Times are in milliseconds. A cell without a state is outside of what the API knows. */
export interface Cell {
  readonly start: number;
  readonly end: number;
  readonly state: CoverageState | null;
  /** Its state without its colour; never empty if only a part of it was asked for. */
  readonly glyph: string;
  /** `05:00 UTC: failed`. */
  readonly text: string;
}

export interface GridRow {
  /** `2024-03-01`: the first day of the row. */
  readonly name: string;
  readonly cells: readonly Cell[];
}

export interface GridShape {
  readonly cellMs: number;
  readonly columns: readonly string[];
  readonly rows: number;
}

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** 1970 began on a Thursday. */
const mondayMs = 4 * dayMs;

const hours: GridShape = {
  cellMs: hourMs,
  columns: Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, '0')),
  rows: 14,
};
const days: GridShape = {
  cellMs: dayMs,
  columns: ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'],
  rows: 26,
};

/** A row per day with a cell per hour; for intervals of a day and longer a row per week. */
export function shapeOf(interval: string): GridShape {
  const length = intervalMs(interval);
  return length !== null && length < dayMs ? hours : days;
}

/** The bounds of a page of the grid, whole rows in UTC. Page 0 ends with the row of now. */
export function pageBounds({ cellMs, columns, rows }: GridShape, page: number, nowMs: number) {
  const rowMs = cellMs * columns.length;
  const origin = columns.length === 7 ? mondayMs : 0;
  const end = origin + (Math.floor((nowMs - origin) / rowMs) + 1 - page * rows) * rowMs;
  return { start: Math.max(0, end - rows * rowMs), end };
}

export function gridRows(
  { cellMs, columns }: GridShape,
  { start, end }: { readonly start: number; readonly end: number },
  ranges: readonly Range[],
): readonly GridRow[] {
  const spans = ranges.map((range) => ({
    state: range.state,
    start: Date.parse(range.start),
    end: Date.parse(range.end),
  }));
  const cellAt = (at: number): Cell => {
    const states = new Set(
      spans.filter((span) => span.start < at + cellMs && span.end > at).map(({ state }) => state),
    );
    const statesOfCell = urgency.filter((state) => states.has(state));
    const names = statesOfCell.map((state) => stateLooks[state][1]);
    const iso = new Date(at).toISOString();
    const [worst] = statesOfCell;
    // Some intervals of it were never asked for, and others were: the seam is seen.
    const isSeam = worst === 'never_asked' && statesOfCell.length > 1;
    const label = `${cellMs === dayMs ? iso.slice(0, 10) : iso.slice(11, 16)} UTC`;
    const text = `${label}: ${names.length === 0 ? 'no interval' : names.join(', ')}`;
    const glyph = isSeam ? '◐' : worst === undefined ? '' : stateLooks[worst][0];
    return { start: at, end: at + cellMs, state: worst ?? null, glyph, text };
  };
  const rowMs = cellMs * columns.length;
  const rows: GridRow[] = [];
  for (let at = end - rowMs; at >= start; at -= rowMs) {
    rows.push({
      name: new Date(at).toISOString().slice(0, 10),
      cells: columns.map((_, index) => cellAt(at + index * cellMs)),
    });
  }
  return rows;
}

/** `3 done, 1 failed`: the intervals that begin in a span, by state. Ranges are cut at the span. */
export function countStates(
  ranges: readonly Range[],
  { start, end }: { readonly start: number; readonly end: number },
): string {
  const counts = new Map<CoverageState, number>();
  for (const range of ranges) {
    const from = Date.parse(range.start);
    const length = (Date.parse(range.end) - from) / range.intervals;
    const first = Math.max(0, Math.ceil((start - from) / length));
    const last = Math.min(range.intervals, Math.ceil((end - from) / length));
    if (last > first) counts.set(range.state, (counts.get(range.state) ?? 0) + last - first);
  }
  const parts = urgency.flatMap((state) => {
    const count = counts.get(state);
    return count === undefined ? [] : [`${plural(count, 'interval')} ${stateLooks[state][1]}`];
  });
  return parts.length === 0 ? 'no interval' : parts.join(', ');
}

/** The intervals that begin in a span and whose late rows wait for a person. */
export function lateRowsIn(
  waits: Coverage['late_rows_wait'],
  { start, end }: { readonly start: number; readonly end: number },
): Coverage['late_rows_wait'] {
  return waits.filter((wait) => Date.parse(wait.start) >= start && Date.parse(wait.start) < end);
}
