import { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import type { Column, RowBlock } from '../../../foundation/domain/row-block.ts';
import type { StreamCodec } from '../codecs/codec.ts';
import { streamCodecOf, streamCompressions } from '../codecs/stream-compressions.ts';
import type {
  EncoderDefinition,
  FileEncoder,
  FormatOptions,
  IsDropped,
  ReadColumn,
  ReadRow,
} from '../encoder.ts';
import { largeRowsOf, writeInTurns } from './large-rows.ts';
import { LimitedTextFile } from './limited-text-file.ts';
import { type RowFormatter, viewRows } from './row-formatter.ts';
import { splitRecords } from './split-records.ts';

/** A text format, in any compression of a whole file. */
export function textFormat(
  names: Pick<EncoderDefinition, 'format' | 'extension' | 'contentType'>,
  formatterOf: (columns: readonly Column[], options?: FormatOptions) => RowFormatter,
  read: (
    text: AsyncIterable<Buffer>,
    columns: readonly ReadColumn[],
    options?: FormatOptions,
  ) => AsyncIterable<ReadRow>,
  recordsOf: (options: FormatOptions) => RecordRules,
): EncoderDefinition {
  return {
    ...names,
    compressions: streamCompressions,
    memoryBytes: textMemoryBytes,
    open(columns, compression, options) {
      const formatter = formatterOf(columns, options);
      const codec = streamCodecOf(compression).open();
      const { maxBytes = null } = options ?? {};
      return maxBytes === null
        ? new TextFile(formatter, codec)
        : new LimitedTextFile(formatter, codec, maxBytes);
    },
    read: (path, columns, compression, options) =>
      read(streamCodecOf(compression).read(path), columns, options),
    without(path, isDropped, compression, options = {}) {
      const codec = streamCodecOf(compression);
      return {
        bytes: withoutRecords(codec.read(path), recordsOf(options), codec.open(), isDropped),
      };
    },
  };
}

/** A chunk goes to the codec at the end of the row at which it reaches this size. */
const CHUNK_BYTES = 1 << 20;
/** Chunks in the codec and after it. */
const textMemoryBytes = 4 * 1024 ** 2;
/** Room for the row that exceeds the size, so that the buffer seldom grows. */
const SPARE_BYTES = 1 << 16;
/** A file begins with a sixteenth of that: most files are small. The buffer doubles until it has the rest. */
const FIRST_BYTES = (CHUNK_BYTES + SPARE_BYTES) / 16;

/**
 * A text file with one line per row. Chunks are cut by the rows alone, not by their blocks: the same rows
 * give the same bytes, compressed too.
 */
export class TextFile implements FileEncoder {
  readonly #formatter: RowFormatter;
  readonly #codec: StreamCodec;
  readonly #out = new ByteWriter(FIRST_BYTES);

  constructor(formatter: RowFormatter, codec: StreamCodec) {
    this.#formatter = formatter;
    this.#codec = codec;
    formatter.writeHeader(this.#out);
  }

  get heldBytes(): number {
    return this.#out.length + this.#codec.heldBytes;
  }

  async write(block: RowBlock): Promise<readonly Uint8Array[]> {
    const ready: Uint8Array[] = [];
    const rows = viewRows(block);
    const isLarge = largeRowsOf(block);
    const take = async () => {
      ready.push(...(await this.#codec.write(this.#out.take(CHUNK_BYTES + SPARE_BYTES))));
    };
    for (let row = 0; row < block.rowCount; ) {
      let end = row;
      while (end < block.rowCount && !isLarge(end)) end += 1;
      if (end > row) {
        row = this.#formatter.writeRows(this.#out, rows, row, end, CHUNK_BYTES);
      } else {
        const written = this.#formatter.writeLargeRow(this.#out, rows, row);
        await writeInTurns(written, this.#out, CHUNK_BYTES, take);
        row += 1;
      }
      if (this.#out.length >= CHUNK_BYTES) await take();
    }
    return ready;
  }

  async finish(): Promise<readonly Uint8Array[]> {
    const rest = this.#out.take(0);
    const ready = rest.length > 0 ? await this.#codec.write(rest) : [];
    return [...ready, ...(await this.#codec.finish())];
  }
}

/** A chunk goes to the codec at the end of the record at which it reaches this size. */
const chunkBytes = 1 << 20;

/** Rules for cutting the text of a format into records. */
interface RecordRules {
  /** True if a line break between double quotes belongs to the record. */
  readonly isQuoted: boolean;
  /** Records before the first row. */
  readonly headers: number;
  /** Bytes before the first record, which stay. */
  readonly markBytes: number;
}

/** The records of a text without those of some rows, byte for byte. */
async function* withoutRecords(
  text: AsyncIterable<Buffer>,
  { isQuoted, headers, markBytes }: RecordRules,
  codec: StreamCodec,
  isDropped: IsDropped,
): AsyncGenerator<Uint8Array> {
  let row = -headers;
  let records: Buffer[] = [];
  let bytes = 0;
  let mark = markBytes;
  for await (const record of splitRecords(text, isQuoted)) {
    const isKept = row < 0 || !isDropped(row);
    const remaining = isKept ? record : record.subarray(0, mark);
    row += 1;
    mark = 0;
    if (remaining.length === 0) continue;
    records.push(remaining);
    bytes += remaining.length;
    if (bytes < chunkBytes) continue;
    yield* await codec.write(Buffer.concat(records));
    records = [];
    bytes = 0;
  }
  if (bytes > 0) yield* await codec.write(Buffer.concat(records));
  yield* await codec.finish();
}
