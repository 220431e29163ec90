import { describe, expect, test } from 'vitest';
import { changeLines } from '../../../src/clients/console/change-lines.ts';
import { lateRowsIn } from '../../../src/clients/console/coverage-grid.ts';
import {
  fieldsOf,
  isFirst,
  type PropertySchema,
} from '../../../src/clients/console/form/fields.ts';
import { describeNow, inPlainWords } from '../../../src/clients/console/form/setting-words.ts';
import { describeGoing } from '../../../src/clients/console/going-rows.ts';
import {
  formatBytes,
  formatCell,
  formatCount,
  plural,
} from '../../../src/clients/console/numbers.ts';
import {
  createTimeFormat,
  formatAgo,
  formatDuration,
  formatRelative,
  formatUtc,
  readLocalInput,
} from '../../../src/clients/console/times.ts';
import { exportSettings } from '../../../src/foundation/domain/export-settings.ts';
import { withFileSettings } from '../../../src/rows/destinations/file-config.ts';
import { s3Definition } from '../../../src/rows/destinations/s3/definition.ts';
import { encoders } from '../../../src/rows/encoders/index.ts';

test.each([
  [0, '0 B'],
  [1_023, '1023 B'],
  [1_536, '1.5 KiB'],
  [5_497_558_138_880, '5.0 TiB'],
])('%i bytes read %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});

test('numbers are grouped, and what is not known is a dash', () => {
  expect([formatCount(1_234_567), formatCount(null)]).toEqual(['1,234,567', '–']);
  expect([plural(1, 'run'), plural(1_000, 'run')]).toEqual(['1 run', '1,000 runs']);
});

test.each([
  [null, 'null'],
  ['text', 'text'],
  [{ plan: 'pro' }, '{"plan":"pro"}'],
  ['x'.repeat(81), `${'x'.repeat(79)}…`],
])('a value of a row is shown on one line', (value, text) => {
  expect(formatCell(value)).toBe(text);
});

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

const line = (field: string, before: string | null, after: string | null, isSecret = false) => ({
  field,
  before,
  after,
  isSecret,
});

test('a destination is compared setting by setting', () => {
  const of = (config: object) => ({ type: 'S3', config });
  const before = of({ bucket_name: 'acme', prefix: 'a', include_events: ['x'], manifest: true });
  const after = of({
    bucket_name: 'acme',
    prefix: '',
    include_events: ['x', 'y'],
    manifest: false,
  });
  expect(changeLines([{ field: 'destination', before, after }])).toEqual([
    line('prefix', 'a', null),
    line('include events', 'x', 'x, y'),
    line('manifest', 'yes', 'no'),
  ]);
});

test('a new export has each setting that is set', () => {
  const after = { type: 'NoOp', config: { prefix: null } };
  const created = [
    { field: 'name', before: null, after: 'Events' },
    { field: 'start_at', before: null, after: '2024-03-01T00:00:00.000000Z' },
    { field: 'destination', before: null, after },
  ];
  expect(changeLines(created)).toEqual([
    line('name', null, 'Events'),
    line('start at', null, '2024-03-01T00:00:00Z'),
    line('type', null, 'NoOp'),
  ]);
});

test.each([
  [null, '********'],
  ['********', '********'],
  ['********', null],
])('of a secret it is known only that it changed: %j → %j', (before, after) => {
  expect(changeLines([{ field: 'destination secrets', before, after }])).toEqual([
    line('destination secrets', before, after, true),
  ]);
});

test('a destination that the API has cut is one line', () => {
  const cut = '{"type":"S3"… (9000 bytes)';
  const after = { type: 'S3', config: {} };
  expect(changeLines([{ field: 'destination', before: cut, after }])).toEqual([
    line('destination', cut, '{"type":"S3","config":{}}'),
  ]);
});

const totals = {
  ...{ delivered_rows: 1_000, rows_now: 100, would_go: 900, would_go_is: 'at_least' as const },
  ...{ compared_intervals: 1, left_out: null },
} as const;

test.each([
  [
    totals,
    'keep',
    '1,000 rows are delivered, and the source has 100 now. At least 900 delivered rows would go, so the runs of these intervals fail and their files stay.',
  ],
  [
    totals,
    'drop',
    '1,000 rows are delivered, and the source has 100 now. At least 900 delivered rows will be removed.',
  ],
  [
    { ...totals, rows_now: 1_000, would_go: 0, would_go_is: 'exact' },
    'drop',
    '1,000 rows are delivered, and the source has 1,000 now. No delivered row would go.',
  ],
  [
    { ...totals, rows_now: null, would_go: null, would_go_is: null },
    'drop',
    '1,000 rows are delivered. How many of them the source no longer has is not known; such rows are removed.',
  ],
] as const)('what would go is said with its numbers (%#)', (given, missingRows, text) => {
  expect(describeGoing(given, missingRows)).toBe(text);
});

test('a selection shows the late rows that wait in it', () => {
  const wait = (hour: number) => ({
    ...{ start: `2024-03-01T0${hour}:00:00Z`, end: `2024-03-01T0${hour + 1}:00:00Z`, why: 'x' },
  });
  const span = { start: Date.parse(wait(1).start), end: Date.parse(wait(1).end) };
  expect(lateRowsIn([wait(0), wait(1), wait(2)], span)).toEqual([wait(1)]);
});

const { configSchema } = withFileSettings(s3Definition, encoders);
const fields = fieldsOf(configSchema as unknown as PropertySchema);
const settings = Object.values(exportSettings).map(({ field, description, ...setting }) => {
  const [one] = fieldsOf({ properties: { [field]: { type: setting.type, description } } });
  return { ...one, default: setting.default } as (typeof fields)[number];
});

test.each([...fields, ...settings].map((field) => [field.name, field] as const))(
  '%s has one line of help in plain words, and says what it is now',
  (_, field) => {
    const { description, kind, default: preset } = inPlainWords(field);
    expect(description.length).toBeLessThanOrEqual(100);
    expect(description).not.toMatch(/\bnull\b|`|[a-z]_[a-z]|high-water/i);
    if (isFirst(field) || kind === 'choice') return;
    const value = kind === 'flag' ? preset === true : String(preset ?? '');
    const now = describeNow(field, value);
    if (value === '') expect(now).not.toBeNull();
    if (kind === 'flag') expect(now).toMatch(/^(yes|no)$/);
  },
);
