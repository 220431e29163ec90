import type { Column, RowBlock } from '../domain/row-block.ts';
import type { StepTally } from './chain-step.ts';
import type { RowTransformer, TransformedRows } from './transform-rows.ts';

/** A chain over the blocks of a run, in any thread. */
export interface BlockTransformer {
  /** Of the blocks that come out. */
  readonly columns: readonly Column[];
  /** In the order of the chain; complete once `finish` has resolved. */
  readonly steps: readonly StepTally[];
  /**
   * Takes a block. Once this resolves, its memory may be used again, unless it is in what this resolves to.
   *
   * @returns the blocks that are ready, in their order; some may be held back for a later call
   */
  write(block: RowBlock): Promise<readonly TransformedRows[]>;
  /** @returns the blocks that were held back */
  finish(): Promise<readonly TransformedRows[]>;
  /** Frees what it holds, at any time and without an error. */
  close(): Promise<void>;
}

/** A chain that works in the thread that calls it. */
export function inThisThread(transformer: RowTransformer): BlockTransformer {
  return {
    columns: transformer.columns,
    steps: transformer.steps,
    write: async (block) => [await transformer.apply(block)],
    finish: async () => [],
    close: async () => {},
  };
}
