import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';
import type { StepCounters, StepErrors } from '../transforms/chain-step.ts';
import type { BuiltInStep } from '../transforms/step.ts';
import type { RowsShape, TransformedRows } from '../transforms/transform-rows.ts';

/** What a thread is made with. */
export interface ThreadSetup {
  readonly steps: readonly BuiltInStep[];
  readonly shape: Omit<RowsShape, 'toJson'>;
}

/** A block on its way: its memory goes along, and the sender has it no more. */
export interface SentBlock {
  /** Its number in the run, from 0; the answer repeats it. */
  readonly place: number;
  readonly rowCount: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly offsets: Int32Array<ArrayBuffer>;
  readonly lengths: Int32Array<ArrayBuffer>;
}

/** What became of the rows of a block in one step. */
export interface StepShare {
  readonly counters: StepCounters;
  readonly timeMs: number;
  readonly errors: readonly StepErrors[];
}

/** The answer to a block, or the kind of an error, which may quote a row. */
export type ThreadAnswer =
  | (Pick<TransformedRows, 'rejected' | 'dropped'> & {
      readonly place: number;
      readonly block: SentBlock;
      readonly steps: readonly StepShare[];
    })
  | { readonly place: number; readonly error: string };

/** A copy that can be sent: the block's own memory belongs to its source. */
export function copyOf({ rowCount, bytes, offsets, lengths }: RowBlock, place: number): SentBlock {
  return {
    place,
    rowCount,
    bytes: new Uint8Array(bytes),
    offsets: new Int32Array(offsets),
    lengths: new Int32Array(lengths),
  };
}

export function memoryOf({ bytes, offsets, lengths }: SentBlock): ArrayBuffer[] {
  return [bytes.buffer, offsets.buffer, lengths.buffer];
}

export function blockOf(sent: SentBlock, columns: readonly Column[]): RowBlock {
  const { buffer, byteOffset, length } = sent.bytes;
  return { ...sent, columns, bytes: Buffer.from(buffer, byteOffset, length) };
}
