import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  bucketCount,
  bucketOf,
  bucketsToName,
  KeyDifference,
  type KeySink,
  KeyTally,
} from '../../../src/rows/pipeline/key-tally.ts';

const everyBucket = Array.from({ length: bucketCount }, (_, bucket) => bucket);
const keys = fc.array(
  fc.integer({ min: 0, max: 30 }).map((n) => `key ${n}`),
  { maxLength: 40 },
);

function tellAll(sink: KeySink, source: readonly string[], files: readonly string[]): void {
  for (const key of source) sink.add(key, 1);
  for (const key of files) sink.add(key, -1);
}

const sorted = (list: readonly string[]) => list.toSorted();

describe('a tally of keys', () => {
  it('reports no difference for equal keys in any order', () => {
    fc.assert(
      fc.property(
        keys,
        fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })),
        (source, order) => {
          const tally = new KeyTally();
          const places = source.map((key) => ({ key, at: order.next().value as number }));
          const files = places.toSorted((a, b) => a.at - b.at).map(({ key }) => key);
          tellAll(tally, source, files);
          expect(tally.differing()).toEqual([]);
        },
      ),
    );
  });

  it('reports the buckets of all differences, and names the keys in them', () => {
    fc.assert(
      fc.property(keys, keys, (source, files) => {
        const tally = new KeyTally();
        tellAll(tally, source, files);
        const found = new KeyDifference(tally.differing());
        tellAll(found, source, files);
        const { lost, doubled, shared, foreign } = found.read();
        const rest = [...files];
        const expectedLost = source.filter((key) => {
          const at = rest.indexOf(key);
          if (at !== -1) rest.splice(at, 1);
          return at === -1;
        });
        expect(sorted(lost)).toEqual(sorted(expectedLost));
        const others = rest.filter((key) => !source.includes(key));
        expect(sorted(foreign)).toEqual(sorted([...new Set(others)]));
        // The files are of one commit.
        expect(sorted([...shared, ...foreign])).toEqual(sorted(rest));
        expect(doubled).toEqual([]);
        expect(tally.differing().length === 0).toBe(lost.length + rest.length === 0);
      }),
    );
  });

  it('notices a row that is swapped for another of its bucket, whose count is the same', () => {
    const bucket = (key: string) => bucketOf(createHash('sha256').update(key).digest());
    const others = Array.from({ length: 50_000 }, (_, n) => `other ${n}`);
    const ofSameBucket = others.filter((key) => bucket(key) === bucket('one'));
    expect(ofSameBucket.length).toBeGreaterThan(3);
    for (const other of ofSameBucket) {
      const tally = new KeyTally();
      tellAll(tally, ['same', 'one'], ['same', other]);
      expect(tally.differing()).toEqual([bucket('one')]);
    }
  });
});

it.each([
  ['all of few keys', 10, 100, 4096],
  ['half of twice as many as are held', 200, 100, 2048],
  ['one at least', 1_000_000_000, 100, 1],
])('of buckets that differ it names %s', (_, keys, most, expected) => {
  expect(bucketsToName(everyBucket, keys, most)).toEqual(everyBucket.slice(0, expected));
});

it('keeps no keys of other buckets', () => {
  const all = new KeyDifference(everyBucket);
  const none = new KeyDifference([]);
  for (const sink of [all, none]) tellAll(sink, ['a', 'b'], []);
  expect(all.read().lost).toEqual(['a', 'b']);
  expect(none.read().lost).toEqual([]);
});
