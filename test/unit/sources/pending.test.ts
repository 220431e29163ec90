import { expect, test } from 'vitest';
import {
  fullId,
  type Live,
  namesOf,
  stillPending,
} from '../../../src/rows/sources/postgres/pending.ts';
import { lastRecordEnd } from '../../../src/rows/sources/postgres/replay.ts';

const nothing: Live = {
  nowMs: 0,
  nextId: 100n,
  virtual: new Map(),
  sessions: new Map(),
  hasUnseen: false,
  prepared: new Map(),
};
const prepared = (...ids: bigint[]) => new Map(ids.map((id) => [id, { preparedAtMs: 50 }]));

test('every live transaction has a name, except those prepared before the interval', () => {
  const live = {
    ...nothing,
    virtual: new Map([
      ['3/4', 90n],
      ['5/6', null],
    ]),
    prepared: new Map([
      [70n, { preparedAtMs: 10 }],
      [80n, { preparedAtMs: 20 }],
    ]),
  };
  expect(namesOf(live, 20)).toEqual(['3/4:90', '5/6>100', 'prepared:80']);
});

test.each<[string, readonly string[], Partial<Live>, readonly string[]]>([
  ['one that has ended', ['3/4:90', '5/6>100'], {}, []],
  ['one that goes on', ['3/4:90'], { virtual: new Map([['3/4', 90n]]) }, ['3/4:90']],
  [
    'one that got its id since',
    ['5/6>100'],
    { virtual: new Map([['5/6', 105n]]), nextId: 110n },
    ['5/6:105'],
  ],
  [
    'one that still has none: later ones are no heirs of it',
    ['5/6>100'],
    { virtual: new Map([['5/6', null]]), nextId: 110n },
    ['5/6>110'],
  ],
  ['one that was prepared', ['3/4:90'], { prepared: prepared(80n, 90n, 95n) }, ['prepared:90']],
  [
    'one that may have been prepared under an id that it got since',
    ['5/6>100'],
    { prepared: prepared(99n, 100n, 101n) },
    ['prepared:100', 'prepared:101'],
  ],
  ['a prepared one', ['prepared:90', 'prepared:91'], { prepared: prepared(91n) }, ['prepared:91']],
  [
    'sessions',
    ['session:7:1', 'session:8:1'],
    {
      sessions: new Map([
        ['session:8:1', { isAtWork: true, isOlder: true }],
        ['session:9:1', { isAtWork: false, isOlder: true }],
      ]),
    },
    ['session:8:1'],
  ],
  [
    'a session that may have prepared a later transaction of its message',
    ['session:7:1>100', 'session:8:1'],
    { prepared: prepared(99n, 101n) },
    ['prepared:101'],
  ],
  ['marks', ['replay:0/1', 'unseen:5'], {}, ['replay:0/1', 'unseen:5']],
])('is left of %s', (_, pending, live, expected) => {
  expect(stillPending(pending, { ...nothing, ...live })).toEqual(expected);
});

test('the lower half of an id is that of the newest that can be', () => {
  expect(fullId('5', 10n)).toBe(5n);
  const next = (3n << 32n) + 10n;
  expect(fullId('5', next)).toBe((3n << 32n) + 5n);
  expect(fullId('4294967290', next)).toBe((2n << 32n) + 4294967290n);
});

test.each([
  ['0/1B9B6D8', '0/1B9B6D8'],
  ['0/1B9A018', '0/1B9A000'],
  ['0/1B9A028', '0/1B9A028'],
  ['2/3000028', '2/3000000'],
  ['FF/1000018', 'FF/1000018'],
])('the last record before %s ends at %s', (position, expected) => {
  // The header of a segment's first page is 40 bytes, of another page 24.
  expect(lastRecordEnd(position, 8_192, 16 * 1024 * 1024)).toBe(
    position === 'FF/1000018' ? 'FF/1000000' : expected,
  );
});
