import type { ErasedValue } from '../../foundation/domain/erased-value.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import type { Source } from '../sources/source.ts';
import { canonicalKey } from './key-values.ts';
import type { Rendering } from './render-interval.ts';
import { RowKeys } from './row-keys.ts';
import { withChain } from './transform-blocks.ts';

/**
 * Counts the rows with a value that the source has for an interval now: as its files would have them, after the chain.
 *
 * @throws SluiceError, and the reason of `signal`
 */
export async function countInSource(
  rendering: Omit<Rendering, 'exportId' | 'maxFileBytes' | 'partitionBy'>,
  { column, value }: ErasedValue,
  source: Source,
  signal: AbortSignal,
): Promise<number> {
  return withChain(rendering, source, signal, async (snapshot, transformer) => {
    const { columns } = transformer ?? snapshot;
    const index = columns.findIndex(({ name }) => name === column);
    const keyColumn = columns[index];
    if (!keyColumn) throw new SluiceError('query.invalid', `the rows have no column ${column} now`);
    const keys = new RowKeys(columns, [index], rendering.encoding.toJson);
    const same = canonicalKey(keyColumn, value);
    let count = 0;
    const see = (block: Parameters<RowKeys['keyOf']>[0]) => {
      for (let row = 0; row < block.rowCount; row += 1) {
        if (keys.keyOf(block, row) === same) count += 1;
      }
    };
    for (const slice of snapshot.slices) {
      for await (const block of snapshot.read(slice, signal)) {
        if (!transformer) see(block);
        else for (const transformed of await transformer.write(block)) see(transformed.block);
      }
    }
    for (const transformed of (await transformer?.finish()) ?? []) see(transformed.block);
    return count;
  });
}
