import { describe, expect, it, test } from 'vitest';
import { turnOf } from '../../../src/foundation/domain/causes.ts';
import {
  errorCatalogue,
  SluiceError,
  toSluiceError,
} from '../../../src/foundation/domain/errors.ts';
import { keyNames, usualFileName } from '../../../src/foundation/domain/file-name.ts';
import {
  fileKey,
  manifestKey,
  partitionOfKey,
  rejectedKey,
  stemsOfKey,
} from '../../../src/foundation/domain/object-keys.ts';
import {
  checkPartitionEntries,
  findPartitionFault,
  hideFolders,
  maxFolderBytes,
  readPartitionField,
} from '../../../src/foundation/domain/partition.ts';
import { isNamedAfter, partitionFolder } from '../../../src/rows/pipeline/partitioned-rows.ts';

const folder = (entry: string, value: unknown) =>
  partitionFolder(readPartitionField(entry), value === null ? null : JSON.stringify(value));

/** As Spark, DuckDB and BigQuery undo it. */
const undo = (name: string) => decodeURIComponent(name.slice(name.indexOf('=') + 1));

test('a text that stays names no value of a folder, whatever the value is', () => {
  const values = [
    'signup',
    'New York',
    'a/b, c',
    'Zürich 😀',
    '50%=half',
    `it's "x"`,
    'l'.repeat(400),
  ];
  for (const value of values) {
    const key = `p/${folder('event', value)}/${folder('city', value)}/2024.jsonl`;
    const hidden = 'p/event=…/city=…/2024.jsonl';
    expect(hideFolders(`Removed ${key}, ${key}.`)).toBe(`Removed ${hidden}, ${hidden}.`);
    expect(new SluiceError('destination.key_taken', key).detail).toBe(hidden);
    expect(hideFolders(encodeURI(`https://s3.example/${key}`))).not.toContain(
      encodeURI(value.slice(0, 4)),
    );
    expect(hideFolders(`/p/${encodeURIComponent(folder('event', value))}/x`)).toBe(
      '/p/event%3D…/x',
    );
  }
  for (const { means, remedy } of Object.values(errorCatalogue)) {
    expect(hideFolders(`${means} ${remedy}`)).toBe(`${means} ${remedy}`);
  }
});

describe('the folder of a value', () => {
  it.each([
    ['signup', 'event=signup'],
    ['a b', 'event=a b'],
    ['a/b', 'event=a%2Fb'],
    ['..', 'event=%2E%2E'],
    ['../../etc', 'event=%2E%2E%2F%2E%2E%2Fetc'],
    ['v1.2.3', 'event=v1.2.3'],
    ['.hidden.', 'event=%2Ehidden%2E'],
    ['50%=half', 'event=50%25%3Dhalf'],
    ['a\nb\u0000c\u007f', 'event=a%0Ab%00c%7F'],
    [`"#'*:?\\{}[]^<>|~\``, 'event=%22%23%27%2A%3A%3F%5C%7B%7D%5B%5D%5E%3C%3E%7C%7E%60'],
    ['\u0085\u2028', 'event=%C2%85%E2%80%A8'],
    ['', 'event=__HIVE_DEFAULT_PARTITION__'],
    [null, 'event=__HIVE_DEFAULT_PARTITION__'],
    [-5, 'event=-5'],
    [{ a: 1 }, 'event=%7B%22a%22%3A1%7D'],
  ])('of %j is %s', (value, expected) => {
    expect(folder('event', value)).toBe(expected);
    if (typeof value === 'string' && value !== '') expect(undo(expected)).toBe(value);
  });

  it('has half of a surrogate pair as U+FFFD, since keys are UTF-8', () => {
    expect(partitionFolder(readPartitionField('event'), '"a\\ud800"')).toBe('event=a%EF%BF%BD');
  });

  it.each(['x', 'ü', '😀', '/', '%', '\n', '.'])(
    'of a long text of %j is short, whole and its own',
    (letter) => {
      const made = [300, 301, 5_000].map((letters) => folder('event', letter.repeat(letters)));
      expect(new Set(made).size).toBe(3);
      for (const name of made) {
        expect(Buffer.byteLength(name)).toBeLessThanOrEqual(maxFolderBytes);
        expect(name).toMatch(/^event=[^/]*-[0-9a-f]{32}$/);
        // No character and no escape is cut in two.
        expect(undo(name.replace(/-[0-9a-f]{32}$/, '')).replaceAll(letter, '')).toBe('');
      }
    },
  );

  it.each([
    ['2026-11-25T13:59:59.999999Z', '2026', '2026-11', '2026-11-25', '2026-11-25-13'],
    ['12026-01-02T03:00:00.000000', '12026', '12026-01', '12026-01-02', '12026-01-02-03'],
    [
      '0044-03-15T12:00:00.000000Z BC',
      '0044 BC',
      '0044-03 BC',
      '0044-03-15 BC',
      '0044-03-15-12 BC',
    ],
    ['infinity', 'infinity', 'infinity', 'infinity', 'infinity'],
  ])('of the parts of %s has the larger ones in front', (time, year, month, day, hour) => {
    const made = ['year', 'month', 'day', 'hour'].map((part) => folder(`${part}(at)`, time));
    expect(made).toEqual([`year=${year}`, `month=${month}`, `day=${day}`, `hour=${hour}`]);
  });
});

describe('entries of partition_by', () => {
  it.each([
    [['event', 'day(at)'], []],
    [['days(at)'], [/"days\(at\)": unknown date part days\. Did you mean day\?/]],
    [['bucket(16, id)'], [/unknown date part bucket\. Use a column, or one of year/]],
    [['day(a)', 'day(b)'], [/two entries would have folders named day=/]],
    [['Event', 'event'], [/two entries would have folders named event=/]],
    [['x'.repeat(101)], [/too long/]],
  ])('%j are checked by themselves', (entries, expected) => {
    const found = checkPartitionEntries(entries);
    expect(found).toHaveLength(expected.length);
    for (const [index, pattern] of expected.entries()) expect(found[index]).toMatch(pattern);
  });

  it.each([
    ['event', null],
    ['day(at)', null],
    ['month(born)', null],
    [
      'evnt',
      /^the rows have no column evnt \(did you mean event\?\).*Columns of the rows: event, at, born, Year, name, Name$/,
    ],
    ['hour(born)', /^born is a date, which has no hour/],
    ['day(event)', /^event is text, and only a date or a timestamp has a day/],
    ['year(at)', /^the rows have a column Year, and readers would take the folders year= for it/],
    ['name', /^the rows have a column Name, and readers would take the folders name= for it/],
  ])('%s is looked for among the columns', (entry, expected) => {
    const fault = findPartitionFault(
      [entry],
      [
        { name: 'event', sourceType: 'text' },
        { name: 'at', sourceType: 'timestamp(3) with time zone' },
        { name: 'born', sourceType: 'date' },
        { name: 'Year', sourceType: 'integer' },
        { name: 'name', sourceType: 'text' },
        { name: 'Name', sourceType: 'text' },
      ],
    );
    if (expected === null) expect(fault).toBeNull();
    else expect(fault).toMatch(expected);
  });
});

describe('keys of files in partitions', () => {
  const interval = { start: Date.UTC(2026, 0, 1), end: Date.UTC(2026, 0, 1, 1) };
  const names = keyNames('a/day=1', usualFileName, interval);
  const partition = 'event=a%2Fb/day=2026-01-01';
  const key = fileKey(names, 2, 3, 'csv', partition);

  it('have the folders between the prefix and the name', () => {
    expect(key).toBe(`a/day=1/${partition}/20260101T000000Z-20260101T010000Z.v2-00003.csv`);
    expect(fileKey(keyNames('', usualFileName, interval), 1, null, 'csv', 'e=1')).toBe(
      'e=1/20260101T000000Z-20260101T010000Z.csv',
    );
  });

  it('say their partition, and lead to their manifest', () => {
    expect(partitionOfKey(names.stem, key)).toBe(partition);
    expect(partitionOfKey(names.stem, rejectedKey(fileKey(names, 1, null, 'csv')))).toBe('');
    const stem = key.slice(0, key.indexOf('.v2'));
    expect(stemsOfKey(stem).map((each) => manifestKey({ stem: each }))).toContain(
      manifestKey(names),
    );
  });

  it.each([
    'a/day=1/b/20260101T000000Z-20260101T010000Z.csv',
    'a/day=1/e=1/f=1/g=1/h=1/20260101T000000Z-20260101T010000Z.csv',
    'a/day=1/e=1/20260101T010000Z-20260101T020000Z.csv',
    'a/day=2/e=1/20260101T000000Z-20260101T010000Z.csv',
  ])('are not those of another interval or export: %s', (other) => {
    expect(partitionOfKey(names.stem, other)).toBeNull();
  });
});

it.each([
  ['ENOSPC', undefined, 'internal.disk_full'],
  ['EROFS', '/tmp/sluice-rows-0f', 'internal.temporary_folder'],
  ['EACCES', '/tmp/sluice-verify-x/file', 'internal.temporary_folder'],
  ['EACCES', '/mnt/exports/file.csv', 'internal.unexpected'],
])(
  'a temporary file that fails with %s has an error of its own, whose turn is ours',
  (code, path, expected) => {
    const failure = Object.assign(new Error('open'), { code, syscall: 'open', path });
    const error = toSluiceError(failure);
    expect([error.code, turnOf(error.code)]).toEqual([expected, 'ours']);
  },
);

it('a folder that is named after a value is known by it, however long or odd the value', () => {
  for (const value of ['42', 'a/b=c', 'größe €😀', 'x'.repeat(500), 'a%2Fb', ' ']) {
    const key = `prefix/day=2026-01-01/${folder('person', value)}/20240301.jsonl`;
    expect(isNamedAfter(key, value), value).toBe(true);
    expect(isNamedAfter(key, `${value}1`), value).toBe(false);
  }
  expect(isNamedAfter('42/a=1/42=x/b.jsonl', '42')).toBe(false);
  expect(isNamedAfter('50%=42/b.jsonl', '42')).toBe(true);
});
