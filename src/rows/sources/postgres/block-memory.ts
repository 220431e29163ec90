import { viewOf } from '../../../foundation/domain/byte-writer.ts';

/** The memory of a block of rows. */
export interface BlockMemory {
  bytes: Buffer;
  view: DataView;
  offsets: Int32Array;
  lengths: Int32Array;
  hiddenOffsets: Int32Array;
  hiddenLengths: Int32Array;
}

/** Rows for which there are positions at first. */
const firstRows = 256;

/**
 * @param size bytes
 * @param width columns of a row
 * @param hidden hidden fields of a row
 */
export function allocateBlock(size: number, width: number, hidden: number): BlockMemory {
  const bytes = Buffer.allocUnsafeSlow(size);
  return {
    bytes,
    view: viewOf(bytes),
    offsets: new Int32Array(width * firstRows),
    lengths: new Int32Array(width * firstRows),
    hiddenOffsets: new Int32Array(hidden * firstRows),
    hiddenLengths: new Int32Array(hidden * firstRows),
  };
}

/** Gives it other bytes, which begin with its first `kept` ones. */
export function growBytes(memory: BlockMemory, size: number, kept: number): void {
  const larger = Buffer.allocUnsafeSlow(size);
  memory.bytes.copy(larger, 0, 0, kept);
  memory.bytes = larger;
  memory.view = viewOf(larger);
}

/** Makes room for the positions of twice as many rows. */
export function growPositions(memory: BlockMemory, width: number, hidden: number): void {
  const size = memory.offsets.length * 2 || width;
  memory.offsets = grown(memory.offsets, size);
  memory.lengths = grown(memory.lengths, size);
  if (hidden === 0) return;
  const rows = Math.ceil(size / width);
  memory.hiddenOffsets = grown(memory.hiddenOffsets, rows * hidden);
  memory.hiddenLengths = grown(memory.hiddenLengths, rows * hidden);
}

function grown(values: Int32Array, size: number): Int32Array {
  const larger = new Int32Array(size);
  larger.set(values);
  return larger;
}
