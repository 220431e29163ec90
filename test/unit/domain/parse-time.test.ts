import { expect, test } from 'vitest';
import { parseSpanBack, parseTime } from '../../../src/foundation/domain/parse-time.ts';

test.each([
  ['2024-03-01T00:00:00Z', '2024-03-01T00:00:00.000000Z', true],
  ['2024-03-01T00:00:00.123456Z', '2024-03-01T00:00:00.123456Z', true],
  ['2024-03-01T00:00:00.123456789Z', '2024-03-01T00:00:00.123456Z', true],
  ['2024-03-01T00:00:00.1', '2024-03-01T00:00:00.100000Z', false],
  ['2024-03-01 12:30', '2024-03-01T12:30:00.000000Z', false],
  ['2024-03-01', '2024-03-01T00:00:00.000000Z', false],
  ['2024-03-01T00:00:00+02:00', '2024-02-29T22:00:00.000000Z', true],
  ['2024-03-01T00:00:00-0530', '2024-03-01T05:30:00.000000Z', true],
  ['2024-03-01T00:00:00+14', '2024-02-29T10:00:00.000000Z', true],
  ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000000Z', true],
  ['9999-12-31T23:59:59Z', '9999-12-31T23:59:59.000000Z', true],
])('%s is %s', (text, timestamp, hasOffset) => {
  expect(parseTime(text)).toEqual({ timestamp, hasOffset });
});

test.each([
  '',
  'yesterday',
  '2024-02-30',
  '2023-02-29T00:00:00Z',
  '2024-13-01',
  '2024-03-01T24:00:00Z',
  '2024-03-01T00:60:00Z',
  '2024-03-01T00:00:60Z',
  '2024-03-01T00:00:00+16:00',
  '2024-03-01T00:00:00+01:60',
  '0001-01-01T00:00:00+02:00',
  '9999-12-31T23:59:59-01:00',
  '0000-01-01',
  '1709251200',
  '2024-03-01T00:00:00Z\n',
  '20240301T000000Z',
])('%j is no time', (text) => {
  expect(parseTime(text)).toBeNull();
});

test('spans go back in hours, days, weeks, months and years', () => {
  expect(['-2h', '-7d', '-4w', '-3m', '-1y'].map(parseSpanBack)).toEqual([
    '2 hours',
    '7 days',
    '4 weeks',
    '3 months',
    '1 years',
  ]);
  expect(['7d', '-7', '-7s', '-99999d', '- 7d'].map(parseSpanBack)).toEqual(Array(5).fill(null));
});
