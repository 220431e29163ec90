import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  checkFileName,
  fileNameVariables,
  keyNames,
  keysOfTemplates,
  readKey,
  renderTail,
  tailOf,
  usualFileName,
} from '../../../src/foundation/domain/file-name.ts';
import {
  fileKey,
  manifestKey,
  rejectedKey,
  stemOf,
} from '../../../src/foundation/domain/object-keys.ts';

const interval = { start: Date.UTC(2024, 2, 1), end: Date.UTC(2024, 2, 1, 1) };
const stem = '20240301T000000Z-20240301T010000Z';
const isoFileName = '{data_interval_start}-{data_interval_end}.{generation}-{part}';
const isoStem = '2024-03-01T00:00:00Z-2024-03-01T01:00:00Z';
const namesAt = (prefix: string, template = usualFileName) => keyNames(prefix, template, interval);

describe.each([
  [usualFileName, stem],
  [isoFileName, isoStem],
])('the keys of an interval by %s', (template, stem) => {
  const names = namesAt('a/b', template);

  it('name both bounds, the generation from the second on, and the part if there is one', () => {
    expect(fileKey(names, 1, null, 'jsonl')).toBe(`a/b/${stem}.jsonl`);
    expect(fileKey(names, 2, null, 'jsonl')).toBe(`a/b/${stem}.v2.jsonl`);
    expect(fileKey(names, 12, 3, 'jsonl')).toBe(`a/b/${stem}.v12-00003.jsonl`);
    expect(fileKey(names, 1, 7, 'csv.gz')).toBe(`a/b/${stem}-00007.csv.gz`);
    expect(manifestKey(names)).toBe(`a/b/${stem}_manifest.json`);
    expect(stemOf(manifestKey(names))).toBe(names.stem);
    expect(rejectedKey(`a/${stem}.csv`)).toBe(`a/${stem}.csv_rejected.jsonl`);
  });

  it('have no leading slash without a prefix', () => {
    expect(fileKey(namesAt('', template), 1, null, 'parquet')).toBe(`${stem}.parquet`);
    expect(manifestKey(namesAt('', template))).toBe(`${stem}_manifest.json`);
  });

  it('say their interval and generation, so that the manifest of each can be found', () => {
    const ends = [
      '.jsonl',
      '.v12.jsonl',
      '.v12-00003.csv.gz',
      '.csv_rejected.jsonl',
      '_manifest.json',
    ];
    for (const end of ends) {
      expect(readKey(`a/b/${stem}${end}`)).toEqual({
        stem: `a/b/${stem}`,
        start: '2024-03-01T00:00:00Z',
        generation: end.startsWith('.v12') ? 12 : 1,
      });
      expect(keysOfTemplates([usualFileName, isoFileName]).test(`a/b/${stem}${end}`)).toBe(true);
      expect(keysOfTemplates(['x{start}{end}']).test(`a/b/${stem}${end}`)).toBe(false);
    }
    for (const other of ['a.csv', `${stem.slice(0, 20)}.csv`, `${stem}/a.csv`]) {
      expect(keysOfTemplates([template]).test(other), other).toBe(false);
    }
  });

  it('differ for any two different intervals, and sort by part', () => {
    const second = fc.integer({ min: 0, max: 4_000_000_000 }).map((n) => n * 1000);
    const bounds = fc.record({ start: second, end: second });
    const keyOf = (one: typeof interval) => fileKey(keyNames('', template, one), 1, null, 'csv');
    fc.assert(
      fc.property(bounds, bounds, (a, b) => {
        expect(keyOf(a) === keyOf(b)).toBe(a.start === b.start && a.end === b.end);
      }),
    );
    const keys = [1, 2, 9, 10, 11, 100].map((part) => fileKey(names, 1, part, 'csv'));
    expect([...keys].sort()).toEqual(keys);
  });
});

describe('a template of names', () => {
  it.each([
    ['events_{start}_{end}_{generation}_{part}', `events_${stem.replace('-', '_')}_v2_00007`],
    ['{start}-{end}', `${stem}.v2-00007`],
    ['{start}{end}x-{part}', `${stem.replace('-', '')}x-00007.v2`],
    ['{start}--{end}.{part}.{generation}.é', `${stem.replace('-', '--')}.00007.v2.é`],
    ['{data_interval_start}_{end}', `2024-03-01T00:00:00Z_20240301T010000Z.v2-00007`],
  ])('%s makes %s', (template, expected) => {
    expect(checkFileName(template, template.includes('{part}'))).toEqual([]);
    const { stem: start, tail } = namesAt('', template);
    expect(`${start}${renderTail(tail, 2, 7)}`).toBe(expected);
    expect(tailOf(template)).toBe(tail);
  });

  it.each([
    ['data', 'Add {start}'],
    ['{start}', 'Add {end}'],
    ['{end}-{start}', 'Put {start} first'],
    ['{start}-{start}-{end}', 'Use each variable once'],
    ['{start}-{end}{part}', 'directly before'],
    ['{start}-{end}v{generation}', 'directly before'],
    ['{start}-{end}-{year}', 'Unknown variable {year}'],
    ['{start}-{end}-{', 'Unmatched brace {'],
    ['a/{start}-{end}', 'slash'],
    ['_{start}-{end}', 'Spark'],
    ['{start}-{end}\t', 'control characters'],
    ['20240301T000000Z-{start}-{end}', 'like a time'],
    ['{start}-{end}.v2', 'like a time or a version'],
    ['{start}-{end}.{generation}5', 'like a time or a version'],
    [`{start}-{end}${'é'.repeat(40)}`, '96 bytes'],
  ])('%s is refused: %s', (template, problem) => {
    expect(checkFileName(template, false).join(' ')).toContain(problem);
  });

  it('needs the part if an interval can have several files', () => {
    expect(checkFileName('{start}-{end}', true).join()).toMatch(/same name\. Add -\{part\}/);
    expect(checkFileName(usualFileName, true)).toEqual([]);
    expect(checkFileName(isoFileName, true)).toEqual([]);
  });

  it('that is accepted never names two intervals, generations or parts alike, and they are read back', () => {
    const piece = fc.oneof(
      fc.constantFrom(...fileNameVariables.map((name) => `{${name}}`)),
      fc.constantFrom('-', '.', '_', 'v', 'v2', '5', 'T000000Z', '20240301', 'x', ':', 'Z', '.v'),
    );
    const template = fc
      .tuple(
        fc.array(piece, { maxLength: 3 }),
        fc.array(piece, { maxLength: 2 }),
        fc.array(piece, { maxLength: 6 }),
      )
      .map(([a, b, c]) => `${a.join('')}{start}${b.join('')}{end}${c.join('')}`)
      .filter((text) => checkFileName(text, text.includes('{part}')).length === 0);
    const second = fc.integer({ min: 0, max: 4_000_000_000 }).map((n) => n * 1000);
    const facts = fc.record({
      start: second,
      end: second,
      generation: fc.oneof(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 1e9 })),
      part: fc.oneof(
        fc.constant(null),
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 1e6 }),
      ),
    });
    const keyOf = (
      text: string,
      { start, end, generation, part }: typeof facts extends fc.Arbitrary<infer T> ? T : never,
    ) => fileKey(keyNames('p', text, { start, end }), generation, part, 'csv.gz');
    fc.assert(
      fc.property(template, facts, facts, (text, a, b) => {
        const same = JSON.stringify(a) === JSON.stringify(b);
        expect(keyOf(text, a) === keyOf(text, b)).toBe(same);
        const { stem } = keyNames('p', text, a);
        expect(readKey(keyOf(text, a))).toMatchObject({ stem, generation: a.generation });
        expect(keysOfTemplates([text]).test(keyOf(text, a))).toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });
});
