import { expect, it } from 'vitest';
import type { Column } from '../../../src/foundation/domain/row-block.ts';
import { openParquet } from '../../../src/rows/encoders/parquet/encode.ts';
import { rowBlock, type TestRow } from '../../support/row-blocks.ts';

/** The file of one column of numerics, and the rows that are not in it. */
async function encode(sourceType: string, texts: readonly (string | null)[]) {
  const columns: readonly Column[] = [{ name: 'v', type: 'as_json', sourceType }];
  const rows = texts.map((text): TestRow => [text]);
  const encoder = openParquet(columns, null);
  const parts = [...(await encoder.write(rowBlock(columns, rows)))];
  const { rejected } = encoder;
  parts.push(...(await encoder.finish()));
  return { file: Buffer.concat(parts).toString('latin1'), rejected };
}

it('values that fit are in the file', async () => {
  const fitting = ['0.00', '-0.01', '12345.67', '-99999999.99', '0.10', '10000.00', '1.00', null];
  const { file, rejected } = await encode('numeric(10,2)', fitting);
  expect(rejected).toEqual([]);
  const values = [0, -1, 1_234_567, -9_999_999_999, 10, 1_000_000, 100];
  const plain = Buffer.alloc(values.length * 8);
  for (const [at, each] of values.entries()) plain.writeBigInt64LE(BigInt(each), at * 8);
  expect(file).toContain(plain.toString('latin1'));
});
