import { expect, test } from 'vitest';
import {
  columnsOf,
  describePoint,
  measures,
  summarise,
} from '../../../src/clients/console/throughput.ts';

const point = (hour: number, rows: number, duration_seconds: number | null) => ({
  data_interval_start: `2024-03-01T0${hour}:00:00.000000Z`,
  data_interval_end: `2024-03-01T0${hour + 1}:00:00.000000Z`,
  rows,
  bytes: rows * 1_024,
  run_id: '0193a6f4-54a1-7cc2-8a4b-8f4f9a0a9f10',
  waited_seconds: duration_seconds && 2 * duration_seconds,
  duration_seconds,
  delivery_delay_seconds: duration_seconds && 3 * duration_seconds,
});
const points = [point(0, 2, 1.5), point(1, 1_000, null)];

test('a chart says its range, and a sum if that means something', () => {
  expect(measures.map((measure) => summarise(measure, points))).toEqual([
    'from 2 to 1,000; 1,002 in all',
    'from 2.0 KiB to 1000 KiB; 1002 KiB in all',
    'from 4.5 s to 4.5 s',
    'from 1.5 s to 1.5 s',
  ]);
  expect(measures.map((measure) => summarise(measure, []))).toEqual(Array(4).fill('not known'));
});

test('a point says what is known of it', () => {
  expect(points.map(describePoint)).toEqual([
    '2 rows, 2.0 KiB, delivered 4.5 s after its end, waited 3.0 s, ran 1.5 s',
    '1,000 rows, 1000 KiB',
  ]);
});

test('a chart has its times in seconds, and gaps for what is not known', () => {
  const duration = measures.at(-1);
  const start = Date.parse('2024-03-01T00:00:00Z') / 1_000;
  expect(duration && columnsOf(duration, points)).toEqual([
    [start, start + 3_600],
    [1.5, null],
  ]);
});
