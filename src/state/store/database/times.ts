import { type DataInterval, type Timestamp, toTimestamp } from '../../../foundation/domain/time.ts';

/** Bounds of intervals are instants in code and timestamps in the tables; this file converts. */

/** SQL of an instant: milliseconds since the epoch. */
export const instantOf = (expression: string): string =>
  `floor(extract(epoch from ${expression}) * 1000)::bigint`;

const pairOf = (start: string, end: string): string =>
  `json_build_object('start', ${instantOf(start)}, 'end', ${instantOf(end)})`;

export const intervalOf = (table: string): string =>
  pairOf(`${table}.data_interval_start`, `${table}.data_interval_end`);

/** SQL: whether two rows are about one interval of one export. */
export const isSameInterval = (one: string, other: string): string =>
  `${one}.export_id = ${other}.export_id and ${one}.data_interval_start = ${other}.data_interval_start
      and ${one}.data_interval_end = ${other}.data_interval_end`;

/** SQL of the range of a backfill in `table`. */
export const rangeOf = (table: string): string => pairOf(`${table}.start_at`, `${table}.end_at`);

/** SQL: nothing waits for as long as this. What is further away was noted by a clock that was wrong. */
export const longerThanAnyWait = `interval '65 minutes'`;

/** SQL: whether a time is over for which something waits, or was noted by a clock that was wrong. */
export const isTime = (at: string): string =>
  `(${at} <= clock_timestamp() or ${at} > clock_timestamp() + ${longerThanAnyWait})`;

/** Values of the two parameters that an interval is written by. */
export const boundsOf = ({ start, end }: DataInterval): [Timestamp, Timestamp] => [
  toTimestamp(start),
  toTimestamp(end),
];

/** The same for many intervals: their starts, and their ends. */
export const boundLists = (intervals: readonly DataInterval[]): [Timestamp[], Timestamp[]] => [
  intervals.map(({ start }) => toTimestamp(start)),
  intervals.map(({ end }) => toTimestamp(end)),
];
