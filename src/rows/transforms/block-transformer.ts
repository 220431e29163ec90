import { type Column, copyBlock, type RowBlock } from '../../foundation/domain/row-block.ts';
import type { StepTally } from './chain-step.ts';
import type { RowTransformer, TransformedRows } from './transform-rows.ts';

export interface BlockTransformer {
  readonly columns: readonly Column[];
  /** In the order of the chain; complete once `finish` has resolved. */
  readonly steps: readonly StepTally[];
  /** Then its memory may be used again, unless it is in the result. @returns the blocks that are ready, in order */
  write(block: RowBlock): Promise<readonly TransformedRows[]>;
  finish(): Promise<readonly TransformedRows[]>;
}

export function blockByBlock(transformer: RowTransformer): BlockTransformer {
  return {
    columns: transformer.columns,
    steps: transformer.steps,
    write: async (block) => [await transformer.apply(block)],
    finish: async () => [],
  };
}

/** Blocks in the processes of a chain or on their way: while one is encoded, the next ones are made. */
const maxInFlight = 2;
/** A larger one goes alone, since a copy of it and the blocks beside it would take too much memory. */
const maxBlockBytes = 2 * 1024 ** 2;

export function withBlocksInFlight(transformer: RowTransformer): BlockTransformer {
  const results: Promise<TransformedRows>[] = [];
  const take = async (most: number) => {
    const ready: TransformedRows[] = [];
    while (results.length > most) {
      const first = await results[0];
      results.shift();
      if (first) ready.push(first);
    }
    return ready;
  };
  return {
    columns: transformer.columns,
    steps: transformer.steps,
    write: async (block) => {
      if (block.bytes.length > maxBlockBytes) {
        return [...(await take(0)), await transformer.apply(block)];
      }
      // The memory of a block that was read belongs to its source.
      const result = transformer.apply(copyBlock(block));
      // It is thrown when the block's turn comes; until then it must not count as unhandled.
      result.catch(() => {});
      results.push(result);
      return take(maxInFlight);
    },
    finish: () => take(0),
  };
}
