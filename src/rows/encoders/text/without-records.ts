import type { StreamCodec } from '../codecs/codec.ts';
import type { IsDropped } from '../encoder.ts';
import { splitRecords } from './split-records.ts';

/** A chunk goes to the codec at the end of the record at which it reaches this size. */
const chunkBytes = 1 << 20;

/** How the text of a format is cut into records. */
export interface RecordRules {
  /** Whether a line break between double quotes belongs to the record. */
  readonly isQuoted: boolean;
  /** Records before the first row. */
  readonly headers: number;
  /** Bytes before the first record, which stay. */
  readonly markBytes: number;
}

/** The records of a text without those of some rows, byte for byte. */
export async function* withoutRecords(
  text: AsyncIterable<Buffer>,
  { isQuoted, headers, markBytes }: RecordRules,
  codec: StreamCodec,
  isDropped: IsDropped,
): AsyncGenerator<Uint8Array> {
  let row = -headers;
  let kept: Buffer[] = [];
  let bytes = 0;
  let mark = markBytes;
  for await (const record of splitRecords(text, isQuoted)) {
    const isKept = row < 0 || !isDropped(row);
    const left = isKept ? record : record.subarray(0, mark);
    row += 1;
    mark = 0;
    if (left.length === 0) continue;
    kept.push(left);
    bytes += left.length;
    if (bytes < chunkBytes) continue;
    yield* await codec.write(Buffer.concat(kept));
    kept = [];
    bytes = 0;
  }
  if (bytes > 0) yield* await codec.write(Buffer.concat(kept));
  yield* await codec.finish();
}
