import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import type { RowBlock } from '../../../foundation/domain/row-block.ts';

/** A row with more bytes is written in pieces: it must not keep the process from others, nor be in memory once more. */
const largeRowBytes = 1 << 20;

/** Bytes of a value that are written at once. */
export const pieceBytes = 1 << 16;

/** Pieces between two turns of the event loop. */
const piecesPerTurn = 8;

/** Says of each row of a block whether it is large. Blocks of the usual size have none. */
export function largeRowsOf({ bytes, columns, lengths }: RowBlock): (row: number) => boolean {
  if (bytes.length <= largeRowBytes) return () => false;
  return (row) => {
    let size = 0;
    for (let field = row * columns.length; field < (row + 1) * columns.length; field += 1) {
      size += Math.max(0, lengths[field] as number);
    }
    return size > largeRowBytes;
  };
}

/**
 * Writes a large row, and hands over what is in `out` each time that it has `fullBytes`.
 *
 * @param written the pieces of `RowFormatter.writeLargeRow`
 */
export async function writeInTurns(
  written: Generator<void>,
  out: ByteWriter,
  fullBytes: number,
  take: () => Promise<void>,
): Promise<void> {
  let pieces = 0;
  for (const _ of written) {
    pieces += 1;
    if (out.length >= fullBytes) await take();
    if (pieces % piecesPerTurn === 0) await nextTurn();
  }
}

/** The bounds of the pieces of a long value. */
export function* piecesOf(from: number, end: number): Generator<readonly [number, number]> {
  for (let start = from; start < end; start += pieceBytes) {
    yield [start, Math.min(start + pieceBytes, end)];
  }
}
