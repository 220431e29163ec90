import { createHash } from 'node:crypto';
import {
  type BaseReason,
  type Element,
  type SequencePoint,
  tombstonesPrefix,
} from '../../foundation/domain/element.ts';
import type { RecipeStep } from '../../foundation/domain/recipe.ts';
import type { DataInterval } from '../../foundation/domain/time.ts';
import type { ElementRequest, SequenceReading, SourceRequest } from '../sources/source.ts';

export interface RecordedElement {
  readonly element: Element;
  /** The era of our database that recorded it. */
  readonly era: string;
  readonly isHere: boolean;
  readonly interval: DataInterval;
}

export interface SequenceState {
  /** Null before the first one. */
  readonly last: RecordedElement | null;
  /** Elements whose commits were begun and never recorded: readers may have applied them. */
  readonly begun: readonly Element[];
  readonly newBase: number;
  /** Before the first one: the era in which the export was made, and its age in minutes. Missing: this era. */
  readonly made?: { readonly era: string; readonly minutes: number } | null;
}

export interface ElementJob {
  readonly sequence: SequenceState;
  readonly interval: DataInterval;
  readonly era: string;
  readonly request: SourceRequest;
  readonly chain: { readonly recipe: readonly RecipeStep[] } | null;
}

export interface PlannedElement {
  readonly element: Omit<Element, 'deletes'>;
  readonly request: ElementRequest;
  readonly compares: boolean;
}

/**
 * It continues the last recorded one, whatever was begun since: a reader who has applied that loses nothing. Its number
 * is above all that may have been published, so each reader applies it.
 * @param due why it must be a base, if that is known already
 */
export function planElement(
  job: ElementJob,
  reading: SequenceReading,
  due: BaseReason | null = null,
): PlannedElement {
  const { sequence } = job;
  const { last } = sequence;
  const definition = definitionOf(job);
  const base = due ?? findBaseReason(job, reading, definition);
  const before = base === null ? (last?.element ?? null) : null;
  const from = before?.next ?? null;
  const number = 1 + highestNumber(job);
  const { point } = reading;
  const tablesBefore = before?.point.tables ?? point.tables;
  const { compareEvery } = reading;
  const since = before === null ? 0 : 1 + (before.uncompared ?? 0);
  const compares = compareEvery !== null && since >= compareEvery;
  const isNew = (id: string) => /^\d+$/.test(id) && tablesBefore[id] === undefined;
  const newTables = Object.keys(point.tables).filter(isNew);
  return {
    element: {
      number,
      follows: before?.number ?? null,
      base,
      from,
      // Who may still write is not known: what the element before left open may be open still.
      next: reading.next ?? from,
      at: reading.atMs,
      point,
      definition,
      newBase: sequence.newBase,
      ...(compareEvery !== null && { uncompared: compares ? 0 : since }),
    },
    request: {
      number,
      versionType: point.versionType,
      from,
      newTables,
      isUnique: reading.isUnique,
    },
    compares,
  };
}

function definitionOf({ request, chain }: ElementJob): string {
  const { tenantKey, dslQuery, includeEvents, excludeEvents, nested = null } = request;
  const parts = [tenantKey, dslQuery, includeEvents, excludeEvents, nested, chain?.recipe ?? []];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
}

function findBaseReason(
  job: ElementJob,
  reading: SequenceReading,
  definition: string,
): BaseReason | null {
  const { last, begun, newBase } = job.sequence;
  const { point } = reading;
  if (lostMinutes(job) !== null) return 'era';
  if (last === null || !last.isHere) return 'first';
  const { element } = last;
  if (element.newBase !== newBase) return 'requested';
  const isOther = element.definition !== definition || element.point.model !== point.model;
  if (isOther) return 'definition';
  if (element.point.server !== point.server) return 'server';
  if (element.next === null) return 'unknown';
  if (reading.isCounterLower(element.next)) return 'counter';
  if (element.point.relation !== point.relation) return 'table';
  const before = Object.entries(element.point.tables);
  const changed = before.flatMap(([id, state]) => (point.tables[id] === state ? [] : id));
  if (changed.some((id) => id.startsWith(tombstonesPrefix))) return 'tombstones';
  if (changed.some((id) => point.tables[id] !== undefined)) return 'table';
  if (changed.length > 0 && reading.deletesBy === 'tombstones') return 'parts';
  const { tombstoneDays } = reading;
  const ageMs = reading.atMs - element.at;
  if (tombstoneDays !== null && ageMs > tombstoneDays * dayMs) return 'tombstones';
  // A row that only such an element had may be gone by now: no record has its key.
  if (reading.compareEvery !== null && begun.length > 0) return 'unrecorded';
  const continues = (other: Element) =>
    other.base === null && other.definition === definition && isSamePoint(other.point, point);
  return begun.every(continues) ? null : 'unfinished';
}

const dayMs = 86_400_000;
const minuteMs = 60_000;

/** Attempts of a minute that may have been published, in a history of our database that is lost. */
const attemptsPerMinute = 16;

/** A database that was restored does not know the newest ones. */
function highestNumber(job: ElementJob): number {
  const { last, begun } = job.sequence;
  const numbers = [last?.element.number ?? -1, ...begun.map(({ number }) => number)];
  return Math.max(...numbers) + (lostMinutes(job) ?? 0) * attemptsPerMinute;
}

function lostMinutes({ sequence: { last, made }, interval, era }: ElementJob): number | null {
  if (last === null) return made && made.era !== era ? made.minutes : null;
  if (last.era === era) return null;
  return Math.max(0, Math.ceil((interval.end - last.interval.end) / minuteMs));
}

/** No row was changed between them without its version. */
export function isSamePoint(a: SequencePoint, b: SequencePoint): boolean {
  return textOf(a) === textOf(b);
}

const textOf = ({ server, relation, model, tables, versionType }: SequencePoint): string =>
  JSON.stringify([server, relation, model, versionType, Object.entries(tables).toSorted()]);
