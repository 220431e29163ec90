import { describe, expect, it } from 'vitest';
import type { RowBlock } from '../../../src/foundation/domain/row-block.ts';
import { planModels } from '../../../src/rows/sources/index.ts';
import { BlockDecoder } from '../../../src/rows/sources/postgres/read-slice.ts';
import {
  CopyFormatError,
  RowBlockBuilder,
  type SourceBlock,
} from '../../../src/rows/sources/postgres/row-blocks.ts';
import { RowTooLargeError } from '../../../src/rows/sources/postgres/row-skimmer.ts';
import { columnsOf, int16, int32 } from '../../support/row-blocks.ts';

const oid = {
  numeric: 1700,
  timestamptz: 1184,
  int4: 23,
};
const header = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
const trailer = Buffer.from([0xff, 0xff]);

/** A block of a key and a value of each row. */
function blockOf(values: readonly Buffer[], hidden: readonly string[] = []): SourceBlock {
  const columns = columnsOf({ id: 'text', v: 'as_json' });
  const builder = new RowBlockBuilder(columns, 1 << 20, { hidden: hidden.length > 0 ? 1 : 0 });
  const rows = values.map((value, row) => {
    const fields = [Buffer.from(`key ${row}`), value, ...hidden.slice(row, row + 1).map(bytesOf)];
    return Buffer.concat([int16(fields.length), ...fields.flatMap((f) => [int32(f.length), f])]);
  });
  const stream = Buffer.concat([header, ...rows, trailer]);
  builder.append(stream, 0, stream.length);
  const [block] = builder.finish();
  if (!block) throw new Error('there is no block');
  return block;
}

const bytesOf = (text: string) => Buffer.from(text);

/** 0 with so many digits after the point. */
const zero = (scale: number) => Buffer.concat([int16(0), int16(0), int16(0), int16(scale)]);

function decoderWith(limits = { textBytes: 1 << 16, maxRowBytes: 1 << 20 }) {
  return new BlockDecoder([false, true], limits);
}

function texts({ rowCount, bytes, offsets, lengths }: RowBlock): readonly string[] {
  return Array.from({ length: rowCount * 2 }, (_, field) => {
    const from = offsets[field] as number;
    return bytes.toString('utf8', from, from + (lengths[field] as number));
  });
}

async function decodeAll(decoder: BlockDecoder, block: SourceBlock): Promise<string[]> {
  const found: string[] = [];
  for await (const part of decoder.decode(block)) found.push(...texts(part));
  return found;
}

describe('BlockDecoder', () => {
  it('gives parts of bounded size if a few bytes have a long text', async () => {
    const block = blockOf(Array.from({ length: 100 }, () => zero(16_000)));
    const found: string[] = [];
    for await (const part of decoderWith().decode(block)) {
      expect(part.bytes.length).toBeLessThan(block.bytes.length + (1 << 16));
      found.push(...texts(part));
    }
    const text = `0.${'0'.repeat(16_000)}`;
    expect(found).toEqual(Array.from({ length: 100 }, (_, row) => [`key ${row}`, text]).flat());
  });

  it('keeps hidden fields with their rows', async () => {
    const hidden = Array.from({ length: 20 }, (_, row) => `hidden ${row}`);
    const block = blockOf(
      hidden.map(() => zero(16_000)),
      hidden,
    );
    const found: string[] = [];
    for await (const part of decoderWith().decode(block)) {
      for (const [row, from] of part.hiddenOffsets.entries()) {
        const length = part.hiddenLengths[row] as number;
        found.push(part.bytes.toString('utf8', from, from + length));
      }
    }
    expect(found).toEqual(hidden);
  });

  it('waits for the memory of a row with much text, and gives it back', async () => {
    const held: number[] = [];
    const hold = async (bytes: number) => {
      held.push(bytes);
      return () => held.push(-bytes);
    };
    const small = { textBytes: 1000, maxRowBytes: 1 << 20 };
    const parts = decoderWith(small).decode(blockOf([zero(5000), zero(5001)]), hold);
    await parts.next();
    expect(held).toEqual([5002]);
    await parts.next();
    expect(held).toEqual([5002, -5002, 5003]);
    await parts.return(undefined);
    expect(held).toEqual([5002, -5002, 5003, -5003]);
  });

  it('refuses a row with more text than a row may have, and knows its key', async () => {
    const small = { textBytes: 1000, maxRowBytes: 10_000 };
    const block = blockOf([zero(100), zero(16_000)]);
    const failure = await decodeAll(decoderWith(small), block).catch((error) => error);
    expect(failure).toBeInstanceOf(RowTooLargeError);
    expect(failure.fields[0].toString()).toBe('key 1');
  });

  it.each([
    { name: 'without all its digits', value: Buffer.alloc(6) },
    { name: 'that is longer', value: Buffer.alloc(12) },
  ])('refuses a numeric $name', async ({ value }) => {
    const found = decodeAll(decoderWith(), blockOf([value]));
    await expect(found).rejects.toThrow(CopyFormatError);
  });
});

describe('which values are decoded', () => {
  it('leaves keys to the server: digests of earlier runs are of its text', () => {
    const column = (name: string) => ({ name, expression: null, sourceType: '', json: false });
    const plan = planModels([
      {
        name: 'prices',
        relation: { schema: 'public', name: 'prices' },
        tenantColumn: 'team_id',
        intervalColumn: 'at',
        keyColumns: ['id'],
        eventColumn: null,
        columns: [column('id'), column('price')],
      },
    ]);
    const interval = { start: 0, end: 60_000 };
    const request = { model: 'prices', tenantKey: '1', interval, dslQuery: null };
    const { select } = plan({ ...request, includeEvents: null, excludeEvents: null });
    const numeric = { typeOid: oid.numeric, sourceType: 'numeric', isComposite: false };
    const { copySql } = select([
      { name: 'id', ...numeric },
      { name: 'price', ...numeric },
      { name: 'at', typeOid: oid.timestamptz, sourceType: 'timestamptz', isComposite: false },
      { name: 'team_id', typeOid: oid.int4, sourceType: 'integer', isComposite: false },
    ]);
    expect(copySql(interval)).toMatch(/to_json\([^)]*"id"\)/);
    expect(copySql(interval)).not.toMatch(/to_json\([^)]*"price"\)/);
  });
});
