import { expect, it } from 'vitest';
import { ByteWriter } from '../../../src/foundation/domain/byte-writer.ts';
import { formatCsv } from '../../../src/rows/encoders/csv/encode.ts';
import { csv } from '../../../src/rows/encoders/csv/definition.ts';
import { formatJsonLines } from '../../../src/rows/encoders/jsonlines/encode.ts';
import { jsonLines, openEncoder } from '../../../src/rows/encoders/index.ts';
import { type RowFormatter, viewRows } from '../../../src/rows/encoders/text/row-formatter.ts';
import { countLoopTurns } from '../../support/loop-turns.ts';
import { encodeAll } from '../../support/parquet-readers.ts';
import { columnsOf, rowBlock, type TestRow } from '../../support/row-blocks.ts';

const columns = columnsOf({
  ...{ id: 'text', body: 'text', data: 'jsonb', doc: 'json', list: 'as_json', word: 'as_json' },
  ...{ bin: 'bytea', n: 'int4', at: 'timestamptz' },
});

/** Longer than some pieces, and no multiple of one. */
const long = (unit: string) => unit.repeat(Math.ceil(300_000 / Buffer.byteLength(unit)) + 7);

const short: TestRow = ['a', 'b', '{"c": 1}', '{}', '[1]', '"w"', Buffer.from([7]), 1, 0n];
const withValues = (values: Readonly<Record<string, string | Buffer>>): TestRow =>
  columns.map(
    ({ name }, index) => values[name] ?? (index % 2 === 0 ? (short[index] ?? null) : null),
  );

const rows: readonly TestRow[] = [
  short,
  withValues({ body: long('plain'), bin: Buffer.alloc(200_001, 0xa5) }),
  withValues({ body: long('größe "😀"\r\n\u0001\\') }),
  withValues({ body: `'=${long('x')}`, word: JSON.stringify(`=${long('y"')}`) }),
  withValues({ body: long('x '), word: JSON.stringify(long('z')) }),
  withValues({ data: `{"a": "${long('\\n\\"x')}"}`, doc: `[${long('"b",\r\n ')}1]` }),
  withValues({ list: `[${long('"x",')}1]`, body: `${long('y')},` }),
];

const formatters: Readonly<Record<string, RowFormatter>> = {
  'JSON Lines': formatJsonLines(columns),
  CSV: formatCsv(columns),
  'CSV with options': formatCsv(columns, {
    ...{ csvFormulaGuard: true, csvDelimiter: 'semicolon', csvNull: 'NULL' },
  }),
};

it.each(Object.keys(formatters))(
  '%s has the same bytes of a row that is written in pieces',
  (name) => {
    const formatter = formatters[name] as RowFormatter;
    const view = viewRows(rowBlock(columns, rows));
    for (const row of rows.keys()) {
      const [whole, inPieces] = [new ByteWriter(16), new ByteWriter(16)];
      formatter.writeRows(whole, view, row, row + 1, 0);
      const taken: Buffer[] = [];
      for (const _ of formatter.writeLargeRow(inPieces, view, row)) taken.push(inPieces.take(16));
      const made = Buffer.concat([...taken, inPieces.take(0)]);
      expect(made.equals(whole.take(0)), `row ${row}`).toBe(true);
    }
  },
);

const fill = (unit: string) => unit.repeat(Math.ceil((12 * 1024 ** 2) / unit.length));

it.each([
  ['JSONLines', jsonLines, null],
  ['CSV', csv, null],
  ['JSONLines with a limit', jsonLines, 1024 ** 2],
  ['CSV with a limit', csv, 1024 ** 2],
] as const)(
  '%s lets others have many turns while it writes a large row',
  async (_, format, maxBytes) => {
    for (const values of [{ body: fill('a "b"\n') }, { data: `["${fill('\\n')}"]` }]) {
      const block = rowBlock(columns, [withValues(values)]);
      const encoder = openEncoder(format, null, columns, { maxBytes });
      const watch = countLoopTurns();
      await encoder.write(block);
      const turns = watch.turns();
      watch.stop();
      expect(turns).toBeGreaterThan(20);
    }
  },
);

it.each([jsonLines, csv])(
  'a limited file of $format takes large rows as any file',
  async (format) => {
    const row = (n: number, bytes: number) => withValues({ id: `${n}`, body: 'x'.repeat(bytes) });
    const all = [row(1, 10), row(2, 3_000_000), row(3, 1_500_000), row(4, 20), row(5, 9_000_000)];
    const block = rowBlock(columns, all);
    const whole = await encodeAll(openEncoder(format, null, columns), [block]);
    const limited = openEncoder(format, null, columns, { maxBytes: 4 * 1024 ** 2 });
    const bytes: Uint8Array[] = [...(await limited.write(block))];
    // The first file has room for the first rows; the last one is larger than a file.
    expect(limited.taken).toBe(2);
    bytes.push(...(await limited.finish()));
    const head = Buffer.concat(bytes);
    expect(whole.subarray(0, head.length).equals(head)).toBe(true);
    const alone = openEncoder(format, null, columns, { maxBytes: 1024 ** 2 });
    await alone.write(rowBlock(columns, all.slice(4)));
    expect(alone.taken).toBe(1);
  },
);
