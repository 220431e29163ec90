import type { ErasedValue } from '../../foundation/domain/erased-value.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { withOpenSteps } from '../sandbox/open-steps.ts';
import type { Source } from '../sources/source.ts';
import type { Step } from '../transforms/step.ts';
import { canonicalKey } from './key-values.ts';
import type { Rendering } from './render-interval.ts';
import { RowKeys } from './row-keys.ts';
import { openTransformer } from './transform-blocks.ts';

/**
 * Counts the rows with a value that the source has for an interval now: as its files would have them, after the chain.
 *
 * @throws SluiceError, and the reason of `signal`
 */
export async function countInSource(
  {
    steps: definitions,
    ...rendering
  }: Omit<Rendering, 'exportId' | 'maxFileBytes' | 'partitionBy'>,
  wanted: ErasedValue,
  source: Source,
  signal: AbortSignal,
): Promise<number> {
  const options = { intervalEndMs: rendering.interval.end, signal };
  return withOpenSteps(definitions, options, (steps) =>
    countWith(steps, rendering, wanted, source, signal),
  );
}

async function countWith(
  steps: readonly Step[],
  { request, encoding }: Pick<Rendering, 'request' | 'encoding'>,
  { column, value }: ErasedValue,
  source: Source,
  signal: AbortSignal,
): Promise<number> {
  const isChanged = steps.length > 0;
  const snapshot = await source.open(
    isChanged ? { ...request, select: 'columns' } : request,
    signal,
  );
  try {
    const transformer = isChanged ? openTransformer(steps, snapshot, encoding.toJson) : null;
    const { columns } = transformer ?? snapshot;
    const index = columns.findIndex(({ name }) => name === column);
    const found = columns[index];
    if (!found) throw new SluiceError('query.invalid', `the rows have no column ${column} now`);
    const keys = new RowKeys(columns, [index], encoding.toJson);
    const same = canonicalKey(found, value);
    let count = 0;
    const see = (block: Parameters<RowKeys['keyOf']>[0]) => {
      for (let row = 0; row < block.rowCount; row += 1) {
        if (keys.keyOf(block, row) === same) count += 1;
      }
    };
    for (const slice of snapshot.slices) {
      for await (const block of snapshot.read(slice, signal)) {
        if (!transformer) see(block);
        else for (const made of await transformer.write(block)) see(made.block);
      }
    }
    for (const made of (await transformer?.finish()) ?? []) see(made.block);
    return count;
  } finally {
    await snapshot.close();
  }
}
