import { describe, expect, test } from 'vitest';
import {
  createTimeFormat,
  formatDuration,
  formatAgo,
  formatRelative,
  formatUtc,
  readLocalInput,
} from '../../../src/clients/console/times.ts';

const berlin = createTimeFormat('en-GB', 'Europe/Berlin');
const now = Date.parse('2024-03-12T18:00:00Z');

test.each([
  ['of today is its time', '2024-03-12T13:05:00.000000Z', '14:05 CET'],
  ['of this year has its day in the reader’s zone', '2024-03-10T23:30:00Z', '11 Mar, 00:30 CET'],
  ['of another year has its year', '2023-12-31T22:59:00Z', '31 Dec 2023, 23:59 CET'],
])('a moment %s', (_name, iso, text) => {
  expect(berlin.moment(iso, now)).toBe(text);
});

describe('an interval', () => {
  test('names its day once if it stays within one', () => {
    expect(berlin.interval('2024-03-12T13:00:00Z', '2024-03-12T14:00:00Z', now)).toBe(
      '12 Mar, 14:00 – 15:00 CET',
    );
  });

  test('names both days if it crosses midnight in the reader’s zone', () => {
    expect(berlin.interval('2024-03-12T22:00:00Z', '2024-03-12T23:00:00Z', now)).toBe(
      '12 Mar, 23:00 – 13 Mar, 00:00 CET',
    );
  });

  test('without a start is described by its end', () => {
    expect(berlin.interval(null, '2024-03-12T14:00:00Z', now)).toBe('up to 15:00 CET');
  });

  test('has both zones if the clocks change within it', () => {
    expect(berlin.interval('2024-10-27T00:00:00Z', '2024-10-27T01:00:00Z', now)).toBe(
      '27 Oct, 02:00 CEST – 02:00 CET',
    );
  });
});

test('the hover shows a time in UTC', () => {
  expect(formatUtc('2024-03-01T00:00:00.123456Z')).toBe('2024-03-01 00:00:00 UTC');
});

describe('a local input', () => {
  test('keeps its wall clock and says the offset of its zone', () => {
    const read = readLocalInput('2024-07-01T08:30');
    expect(read).toMatch(/^2024-07-01T08:30:00[+-]\d\d:\d\d$/);
    expect(Date.parse(read ?? '')).toBe(Date.parse('2024-07-01T08:30'));
  });

  test.each([[''], ['2024-07-01'], ['soon'], ['2024-13-01T00:00']])('%j is no time', (value) => {
    expect(readLocalInput(value)).toBeNull();
  });

  test('holds an instant in the reader’s zone', () => {
    expect(berlin.inputValue('2024-07-01T06:30:12Z')).toBe('2024-07-01T08:30');
  });
});

test.each([
  [0, '0.0 s'],
  [840, '0.8 s'],
  [-5_000, '0.0 s'],
  [12_400, '12 s'],
  [250_000, '4 min 10 s'],
  [3_600_000, '1 h'],
  [183_600_000, '2 d 3 h'],
])('a duration of %i ms reads %s', (ms, text) => {
  expect(formatDuration(ms)).toBe(text);
});

test.each([
  [1_000, 'in a moment'],
  [-1_000, 'just now'],
  [43_000, 'in 43 s'],
  [-750_000, '12 min ago'],
  [7_300_000, 'in 2 h'],
  [-90_000_000, '1 d ago'],
])('an instant %i ms from now reads %s', (distance, text) => {
  const iso = new Intl.DateTimeFormat('sv-SE', {
    timeZone: 'UTC',
    dateStyle: 'short',
    timeStyle: 'medium',
  });
  expect(formatRelative(`${iso.format(now + distance).replace(' ', 'T')}Z`, now)).toBe(text);
});

test('what has happened is never in the future, whatever the clocks', () => {
  const at = (distance: number) => new Date(now + distance).toISOString();
  expect([8_000, 600_000, -750_000].map((distance) => formatAgo(at(distance), now))).toEqual([
    ...['just now', 'just now', '12 min ago'],
  ]);
});
