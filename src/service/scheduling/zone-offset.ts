/**
 * A zone's offset from UTC as a function of time, from Node's own zone data.
 *
 * Reading that data takes microseconds, and ten years of days need thousands of reads. So time is cut into
 * cells of two days, each read once, at its ends. The cache is a pure function of zone and cell.
 */

import { IANAZone } from 'luxon';
import type { Instant } from '../../foundation/domain/time.ts';

const hourMs = 3_600_000;

/** Two changes inside one cell would be missed. No zone after 1970 has two within seven days (America/Recife in 2000). */
const cellMs = 48 * hourMs;

/** No zone has ever been further than this from UTC. */
const maxOffsetMs = 16 * hourMs;

/** The limit for all zones together: about 10 MB, 500 years. */
const maxCells = 100_000;

/** Names may be written in any case, so there are more than the zone database has. luxon keeps about 30 KB for each. */
const maxZones = 1_000;

interface Cell {
  readonly beforeMs: number;
  readonly afterMs: number;
  /** The first instant of `afterMs`; the end of the cell if nothing changes in it. */
  readonly changeAt: Instant;
}

const cellsOfZones = new Map<string, Map<number, Cell>>();
let cellsInAll = 0;

/** Names known to exist: checking one takes longer than everything else about a cadence. */
const knownZones = new Set<string>();

/** True for a name of the IANA database; false for fixed offsets such as `+05:00`. */
export function isTimezone(name: string): boolean {
  if (knownZones.has(name)) return true;
  const exists = /^[A-Za-z]/.test(name) && IANAZone.isValidZone(name);
  if (exists && knownZones.size < maxZones) knownZones.add(name);
  return exists;
}

/** Local time minus UTC at `instant`, in milliseconds. */
export function offsetAt(timezone: string, instant: Instant): number {
  const cell = cellAt(timezone, Math.floor(instant / cellMs));
  return instant < cell.changeAt ? cell.beforeMs : cell.afterMs;
}

/** The first instant at which the wall clock shows `localMs`, written as if it were UTC, or later: of a fold the first of two. */
export function firstInstantAt(timezone: string, localMs: number): Instant {
  const lastIndex = Math.floor((localMs + maxOffsetMs) / cellMs);
  for (let index = Math.floor((localMs - maxOffsetMs) / cellMs); index <= lastIndex; index += 1) {
    const cell = cellAt(timezone, index);
    const before = localMs - cell.beforeMs;
    if (before < cell.changeAt) return Math.max(index * cellMs, before);
    const after = Math.max(cell.changeAt, localMs - cell.afterMs);
    if (after < (index + 1) * cellMs) return after;
  }
  throw new RangeError(`no instant for local time ${localMs} in ${timezone}`);
}

function cellAt(timezone: string, index: number): Cell {
  const cached = cellsOfZones.get(timezone)?.get(index);
  if (cached !== undefined) return cached;
  if (cellsInAll >= maxCells || cellsOfZones.size >= maxZones) forgetZones();
  const cells = cellsOfZones.get(timezone) ?? new Map<number, Cell>();
  cellsOfZones.set(timezone, cells);

  const zone = IANAZone.create(timezone);
  if (!zone.isValid) throw new RangeError(`unknown timezone ${timezone}`);
  const start = index * cellMs;
  const end = start + cellMs;
  const beforeMs = cells.get(index - 1)?.afterMs ?? lookUp(zone, start);
  const afterMs = cells.get(index + 1)?.beforeMs ?? lookUp(zone, end);
  const changeAt = beforeMs === afterMs ? end : findChange(zone, start, end, beforeMs);
  const cell = { beforeMs, afterMs, changeAt };
  cells.set(index, cell);
  cellsInAll += 1;
  return cell;
}

function forgetZones(): void {
  cellsOfZones.clear();
  cellsInAll = 0;
  IANAZone.resetCache();
}

/** Bisects to the second: zone data changes on whole seconds only. */
function findChange(zone: IANAZone, start: Instant, end: Instant, beforeMs: number): Instant {
  let low = start / 1000;
  let high = end / 1000;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (lookUp(zone, middle * 1000) === beforeMs) low = middle;
    else high = middle;
  }
  return high * 1000;
}

/** luxon returns minutes, with fractions if a zone once had seconds (Africa/Monrovia, 1972). */
function lookUp(zone: IANAZone, instant: Instant): number {
  return Math.round(zone.offset(instant) * 60_000);
}
