import type { IntervalThroughput } from './api-types.ts';
import { formatBytes, formatCount } from './numbers.ts';
import { formatDuration } from './times.ts';

/** The data of the charts of an export, one line or bar per interval. */
export interface Measure {
  readonly name: string;
  readonly unit: string;
  /** Null if it is not known. */
  readonly read: (point: IntervalThroughput) => number | null;
  readonly format: (value: number) => string;
  /** A sum of all intervals means something. */
  readonly adds: boolean;
}

export const measures: readonly Measure[] = [
  { name: 'Rows', unit: 'rows', read: ({ rows }) => rows, format: formatCount, adds: true },
  {
    name: 'Size of files',
    unit: 'size',
    read: ({ bytes }) => bytes,
    format: formatBytes,
    adds: true,
  },
  {
    name: 'Delivery delay',
    unit: 'duration',
    read: ({ delivery_delay_seconds: seconds }) => seconds,
    format: (seconds) => formatDuration(seconds * 1_000),
    adds: false,
  },
  {
    name: 'Run duration',
    unit: 'duration',
    read: ({ duration_seconds: seconds }) => seconds,
    format: (seconds) => formatDuration(seconds * 1_000),
    adds: false,
  },
];

/** `from 0 to 8,312; 60,120 in all`: what a chart says to those who do not see it. */
export function summarise(measure: Measure, points: readonly IntervalThroughput[]): string {
  const values = points.map(measure.read).filter((value) => value !== null);
  if (values.length === 0) return 'not known';
  const { format } = measure;
  const range = `from ${format(Math.min(...values))} to ${format(Math.max(...values))}`;
  const sum = values.reduce((total, value) => total + value, 0);
  return measure.adds ? `${range}; ${format(sum)} in all` : range;
}

/** `8,312 rows, 1.2 MiB, delivered 9.8 s after its end, waited 5.3 s, ran 2.4 s` */
export function describePoint(point: IntervalThroughput): string {
  const { rows, bytes } = point;
  const span = (seconds: number | null, before: string, after = '') =>
    seconds === null ? [] : [`${before} ${formatDuration(seconds * 1_000)}${after}`];
  return [
    `${formatCount(rows)} ${rows === 1 ? 'row' : 'rows'}`,
    formatBytes(bytes),
    ...span(point.delivery_delay_seconds, 'delivered', ' after its end'),
    ...span(point.waited_seconds, 'waited'),
    ...span(point.duration_seconds, 'ran'),
  ].join(', ');
}

/** The columns that a chart draws: starts in seconds since the epoch, and values. */
export function columnsOf(
  measure: Measure,
  points: readonly IntervalThroughput[],
): [number[], (number | null)[]] {
  const starts = points.map(({ data_interval_start: at }) => Date.parse(at) / 1_000);
  return [starts, points.map(measure.read)];
}
