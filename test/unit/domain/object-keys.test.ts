import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  fileKey,
  manifestKey,
  manifestKeyOf,
  rejectedKey,
} from '../../../src/foundation/domain/object-keys.ts';

const interval = { start: Date.UTC(2024, 2, 1), end: Date.UTC(2024, 2, 1, 1) };
const stem = '2024-03-01T00:00:00Z-2024-03-01T01:00:00Z';

describe('the keys of an interval', () => {
  it('name both bounds, the generation from the second on, and the part if there is one', () => {
    expect(fileKey('a/b', interval, 1, null, 'jsonl')).toBe(`a/b/${stem}.jsonl`);
    expect(fileKey('a/b', interval, 2, null, 'jsonl')).toBe(`a/b/${stem}.v2.jsonl`);
    expect(fileKey('a/b', interval, 12, 3, 'jsonl')).toBe(`a/b/${stem}.v12-00003.jsonl`);
    expect(fileKey('a/b', interval, 1, 7, 'csv.gz')).toBe(`a/b/${stem}-00007.csv.gz`);
    expect(manifestKey('a/b', interval)).toBe(`a/b/${stem}_manifest.json`);
    for (const end of [
      '.jsonl',
      '.v2.jsonl',
      '.v12-00003.csv.gz',
      '.csv_rejected.jsonl',
      '_manifest.json',
    ]) {
      expect(manifestKeyOf(`a/b/${stem}${end}`)).toBe(manifestKey('a/b', interval));
    }
    expect(rejectedKey(`a/${stem}.csv`)).toBe(`a/${stem}.csv_rejected.jsonl`);
  });

  it('have no leading slash without a prefix', () => {
    expect(fileKey('', interval, 1, null, 'parquet')).toBe(`${stem}.parquet`);
    expect(manifestKey('', interval)).toBe(`${stem}_manifest.json`);
  });

  it('differ for any two different intervals, and sort by part', () => {
    const second = fc.integer({ min: 0, max: 4_000_000_000 }).map((n) => n * 1000);
    const bounds = fc.record({ start: second, end: second });
    fc.assert(
      fc.property(bounds, bounds, (a, b) => {
        const same = a.start === b.start && a.end === b.end;
        expect(fileKey('', a, 1, null, 'csv') === fileKey('', b, 1, null, 'csv')).toBe(same);
      }),
    );
    const keys = [1, 2, 9, 10, 11, 100].map((part) => fileKey('p', interval, 1, part, 'csv'));
    expect([...keys].sort()).toEqual(keys);
  });
});
