import type { DataInterval } from '../../../foundation/domain/time.ts';
import { manyRows, type Slice, type SourceRequest } from '../source.ts';

/** A slice of fewer rows is not worth a statement of its own. */
const rowsPerSlice = 1_000;

/** The slices of an interval with so many rows or more are the same. */
const maxCounted = 200_000;

/** So many rows are counted at most: with more, `sliceInterval` makes the same slices. */
export function countLimit(interval: DataInterval, sliceMs: number): number {
  const slices = Math.ceil((interval.end - interval.start) / sliceMs);
  return Math.min(maxCounted, Math.max(manyRows, slices * rowsPerSlice));
}

/** Null: all are counted. Keys are compared in number, and may not be read at all. */
export function countLimitOf(
  { select, whole, interval }: SourceRequest,
  sliceMs: number,
): number | null {
  if (select === 'keys') return null;
  return whole ? manyRows : countLimit(interval, sliceMs);
}

/**
 * From its start; the last may be shorter. Slices of few rows are joined: at most as many as thousands of rows. @param
 * sliceMs how long a slice is at least @param counted rows of the interval, or as many of them as were counted
 */
export function sliceInterval(
  interval: DataInterval,
  sliceMs: number,
  counted: number,
): readonly Slice[] {
  const lengthMs = interval.end - interval.start;
  const most = Math.ceil(Math.min(counted, maxCounted) / rowsPerSlice);
  const joined = most === 0 ? 0 : Math.max(1, Math.ceil(Math.ceil(lengthMs / sliceMs) / most));
  const slices: Slice[] = [];
  for (let start = interval.start; joined > 0 && start < interval.end; start += joined * sliceMs) {
    slices.push({ start, end: Math.min(start + joined * sliceMs, interval.end) });
  }
  return slices;
}

/** All rows together are one slice, as no column cuts them. */
export const slicesOf = (
  { interval, whole }: SourceRequest,
  sliceMs: number,
  rows: number,
): readonly Slice[] =>
  whole ? (rows === 0 ? [] : [interval]) : sliceInterval(interval, sliceMs, rows);
