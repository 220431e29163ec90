import { describe, expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { KeyDifference } from '../../../src/rows/pipeline/key-tally.ts';
import { joinKeys, splitKeys } from '../../../src/rows/pipeline/row-keys.ts';
import type { Source, SourceRequest } from '../../../src/rows/sources/source.ts';
import { Difference, groupsOf } from '../../../src/service/verify/compare-rows.ts';
import { answersOf } from '../../../src/service/verify/verify-interval.ts';
import { lookUpFor } from '../../../src/service/verify/source-keys.ts';

const never = new AbortController().signal;
const buckets = [...Array(4096).keys()];

/** The answers for keys of a source and of files: of a run, and of one that has added rows since. */
function answer(
  source: readonly string[],
  files: readonly string[],
  added: readonly string[],
  commit: Parameters<Difference['answer']>[1],
) {
  const found = new Difference();
  for (const group of groupsOf(buckets, 2_000_000)) {
    const difference = new KeyDifference(group);
    for (const key of source) difference.add(key, 1);
    for (const key of files) difference.add(key, -1, 1);
    for (const key of added) difference.add(key, -1, 2);
    found.add(difference.read());
  }
  const { missing, doubled, gone, moved, goneOrMoved } = found.answer(new Set(['m']), commit);
  return [missing, doubled, gone, moved].map(({ count }) => count).concat(goneOrMoved);
}

const noLook = { isLookedAt: false, waitsFor: null, isAccepted: false };
const whole = { isWhole: true, isChanged: false, ...noLook };
const torn = { isWhole: false, isChanged: false, ...noLook };
const changed = { isWhole: false, isChanged: true, ...noLook };

describe('the answers for rows', () => {
  it.each([
    ['equal rows', ['a', 'b', 'b'], ['b', 'a', 'b'], whole, [0, 0, 0, 0, 0]],
    ['a missing row', ['a', 'b'], ['a'], whole, [1, 0, 0, 0, 0]],
    ['a doubled row', ['a', 'b'], ['a', 'b', 'b'], torn, [0, 1, 0, 0, 0]],
    ['a doubled row that is gone', ['a'], ['a', 'b', 'b'], torn, [0, 1, 1, 0, 0]],
    ['a row gone, one moved', ['a'], ['a', 'g', 'm'], whole, [0, 0, 1, 1, 0]],
    ['rows of a view that shared a key', ['a'], ['a', 'a', 'b', 'b'], whole, [0, 0, 3, 0, 0]],
    ['a doubled row instead of a missing one', ['a', 'b'], ['a', 'a'], whole, [1, 1, 0, 0, 0]],
  ])('of %s', (_, source, files, commit, expected) => {
    expect(answer(source, files, [], commit)).toEqual(expected);
  });

  it.each([
    ['one row', ['a', 'b'], ['a'], ['b'], [0, 0, 0, 0, 0]],
    ['none, and rows shared a key', ['a'], ['a', 'a', 'b', 'b'], [], [0, 0, 3, 0, 0]],
    [
      'one, another came, and rows shared a key',
      ['a', 'b', 'c'],
      ['a', 'a'],
      ['b'],
      [1, 0, 1, 0, 0],
    ],
    ['a row that was delivered', ['a', 'b'], ['a', 'b'], ['b'], [0, 1, 0, 0, 0]],
    ['a row that was delivered and is gone', ['a'], ['a', 'b'], ['b'], [0, 1, 1, 0, 0]],
  ])('of files to which a run has added %s', (_, source, files, added, expected) => {
    expect(answer(source, files, added, changed)).toEqual(expected);
  });

  it.each([
    ['a look-back is due', ['a', 'a'], { ...whole, isLookedAt: true }, [0, 1]],
    ['late rows wait for a person', ['a', 'a'], { ...whole, waitsFor: 'x' }, [0, 1]],
    ['a person has accepted that', ['a', 'a'], { ...whole, isAccepted: true }, [0, 1]],
    ['no row can come late', ['a', 'a'], whole, [1, 0]],
    ['a run wrote more rows than it read', ['a', 'a'], { ...torn, isLookedAt: true }, [1, 0]],
  ])(
    'of rows that shared a key in a view, beside a late row, if %s',
    (_, files, commit, expected) => {
      const difference = new KeyDifference(buckets);
      for (const key of ['a', 'late']) difference.add(key, 1);
      for (const key of files) difference.add(key, -1, 1);
      const found = new Difference();
      found.add(difference.read());
      const { missing, doubled, undecided } = found.answer(null, commit);
      expect(missing.count).toBe(1);
      expect([doubled.count, undecided.count]).toEqual(expected);
    },
  );

  it('name no more keys than are looked up', () => {
    const files = Array.from({ length: 5_000 }, (_, index) => `key ${index}`);
    expect(answer([], files, [], whole)).toEqual([0, 0, 2_000, 0, 3_000]);
  });

  it('need several passes only if the keys do not fit into memory', () => {
    expect([...groupsOf(buckets, 400_000)]).toHaveLength(1);
    const groups = [...groupsOf(buckets, 10_000_000)];
    expect(groups.length).toBeGreaterThan(19);
    expect(groups.flat()).toEqual(buckets);
    expect([...groupsOf([1, 2], 10_000_000)]).toHaveLength(1);
  });
});

it.each([
  ['the source has none', null, new Set()],
  ['a standby ends each read', 'source.recovery_conflict', null],
  ['their keys cannot be compared', 'query.invalid', null],
  ['the source is unreachable', 'source.unavailable', 'source.unavailable'],
] as const)('rows that are looked up in other intervals if %s', async (_, code, expected) => {
  const findElsewhere = async () => {
    if (code !== null) throw new SluiceError(code);
    return [];
  };
  const lookUp = lookUpFor({ findElsewhere } as Partial<Source> as Source, never, 1_000, () => 0);
  const request = {} as SourceRequest;
  const found = lookUp.find(request, [{ name: 'id', type: 'int8' }], [joinKeys(['1'])]);
  const said = await found.catch((error: unknown) => error instanceof SluiceError && error.code);
  expect(said).toEqual(expected);
});

describe('keys that were joined', () => {
  it.each([[['a']], [[null]], [['a', null]], [[null, 'null']], [['', 'x', null]], [['', 'null']]])(
    'are split again: %j',
    (keys) => {
      expect(splitKeys(joinKeys(keys), keys.length)).toEqual(keys);
    },
  );
  it('are not guessed', () => {
    expect(splitKeys(joinKeys(['', 'null', null]), 3)).toBeNull();
  });
});

it('late rows that no look-back adds: the remedy is a backfill of the interval, with its bounds', () => {
  const none = { count: 0, keys: [] };
  const rows = { missing: { count: 2, keys: ['a', 'b'] }, doubled: none, undecided: none };
  const interval = { start: Date.UTC(2024, 2, 1), end: Date.UTC(2024, 2, 1, 1) };
  const { findings } = answersOf(
    { exportId: 'id-of-it', interval } as Parameters<typeof answersOf>[0],
    { ...rows, gone: none, moved: none, goneOrMoved: 0, onlyCounted: false } as Parameters<
      typeof answersOf
    >[1],
    {
      isWhole: true,
      isChanged: false,
      isAccepted: false,
      isLookedAt: false,
      waitsFor: null,
    } as Parameters<typeof answersOf>[2],
  );
  expect(findings[0]?.remedy).toMatch(
    /^Run `sluice backfill id-of-it --from 2024-03-01T00:00:00Z --to 2024-03-01T01:00:00Z`:/,
  );
});
