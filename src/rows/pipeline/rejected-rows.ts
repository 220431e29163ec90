import type { RowBlock } from '../../foundation/domain/row-block.ts';
import type { FileEncoder, RejectedRow } from '../encoders/encoder.ts';
import type { StepRejection } from '../transforms/transform-rows.ts';

/**
 * Lines of the rejected file: `{"column", "reason", "row"}`, the row as JSON Lines would hold it.
 *
 * @param open opens plain JSON Lines over the block's columns
 */
export async function encodeRejectedRows(
  open: () => FileEncoder,
  block: RowBlock,
  rejected: readonly RejectedRow[],
): Promise<readonly Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  for (const { row, column, reason } of rejected) {
    const head = { column: block.columns[column]?.name ?? null, reason };
    const json = Buffer.concat(await encodeOne(open(), rowOf(block, row)));
    chunks.push(
      Buffer.from(`${JSON.stringify(head).slice(0, -1)},"row":`),
      // Without its line feed.
      json.subarray(0, -1),
      Buffer.from('}\n'),
    );
  }
  return chunks;
}

/** Lines of the rejected file for rows that a step rejected: their key and the reason, no other value. */
export function encodeRejections(rejected: readonly StepRejection[]): readonly Uint8Array[] {
  return rejected.map(({ step, reason, key }) => {
    const members = Object.entries(key).map(([name, json]) => `${JSON.stringify(name)}:${json}`);
    const head = JSON.stringify({ column: null, step, reason }).slice(0, -1);
    return Buffer.from(`${head},"row":{${members.join(',')}}}\n`);
  });
}

/** One row of a block as a block: the same bytes, other positions. */
function rowOf(block: RowBlock, row: number): RowBlock {
  const { columns, offsets, lengths } = block;
  const from = row * columns.length;
  const to = from + columns.length;
  return {
    ...block,
    rowCount: 1,
    offsets: offsets.subarray(from, to),
    lengths: lengths.subarray(from, to),
  };
}

async function encodeOne(encoder: FileEncoder, block: RowBlock): Promise<readonly Uint8Array[]> {
  const written = await encoder.write(block);
  return [...written, ...(await encoder.finish())];
}
