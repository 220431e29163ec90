import { ByteWriter, viewOf } from '../../../foundation/domain/byte-writer.ts';
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
import { type RowFormatter, type ViewedRows, viewRows } from './row-formatter.ts';
import { splitRecords } from './split-records.ts';

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

/** A chunk goes to the codec at the end of the row or record at which it reaches this size. */
const CHUNK_BYTES = 1 << 20;
const textMemoryBytes = 4 * 1024 ** 2;
/** Room for the row that exceeds the size, so that the buffer seldom grows. */
const SPARE_BYTES = 1 << 16;
/** A file begins with a sixteenth of that: most files are small. The buffer doubles until it has the rest. */
const FIRST_BYTES = (CHUNK_BYTES + SPARE_BYTES) / 16;

/** Chunks are cut by the rows alone, not by their blocks: the same rows give the same bytes, compressed too. */
class TextFile implements FileEncoder {
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

interface RecordRules {
  /** A line break between double quotes belongs to the record. */
  readonly isQuoted: boolean;
  readonly headers: number;
  readonly markBytes: number;
}

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
    if (bytes < CHUNK_BYTES) continue;
    yield* await codec.write(Buffer.concat(records));
    records = [];
    bytes = 0;
  }
  if (bytes > 0) yield* await codec.write(Buffer.concat(records));
  yield* await codec.finish();
}

/** A chunk has at most a twelfth of the file, so that the last one leaves less than a tenth empty. */
const chunkShare = 1 / 12;

/** Maximum bytes after compression, with a share of the file's head and end. */
const worstCase = (bytes: number) => bytes + Math.ceil(bytes / 128) + 512;

/**
 * It ends before a chunk that might not fit, so only a single larger row exceeds the limit. By the rows alone: a
 * decision counts compressed bytes only after it has waited for all of them.
 */
class LimitedTextFile implements FileEncoder {
  taken = 0;
  readonly heldBytes = 0;
  readonly #formatter: RowFormatter;
  readonly #codec: StreamCodec;
  readonly #maxBytes: number;
  readonly #chunkBytes: number;
  readonly #out: ByteWriter;
  #hasReserve = true;
  #hasRows = false;
  #returned = 0;
  /** Bytes that were returned before the last flush: the same at every run. */
  #known = 0;
  /** Bytes given to the codec since then. */
  #since = 0;
  #ready: Uint8Array[] = [];

  constructor(formatter: RowFormatter, codec: StreamCodec, maxBytes: number) {
    this.#formatter = formatter;
    this.#codec = codec;
    this.#maxBytes = maxBytes;
    this.#chunkBytes = Math.min(CHUNK_BYTES, Math.floor(maxBytes * chunkShare));
    this.#out = new ByteWriter(this.#chunkBytes);
    formatter.writeHeader(this.#out);
  }

  async write(block: RowBlock): Promise<readonly Uint8Array[]> {
    this.taken = 0;
    const rows = viewRows(block);
    const isLarge = largeRowsOf(block);
    while (this.taken < block.rowCount) {
      if (isLarge(this.taken)) {
        if (!(await this.#takeLargeRow(rows))) break;
        continue;
      }
      const before = this.#out.length;
      this.#formatter.writeRows(this.#out, rows, this.taken, this.taken + 1, 0);
      const isChunkFull = this.#out.length > this.#chunkBytes;
      if ((isChunkFull || !this.#hasReserve) && !(await this.#startChunk(before))) break;
      this.#hasRows = true;
      this.taken += 1;
      if (this.#out.length > this.#chunkBytes) await this.#giveLargeRow();
    }
    return this.#takeReady();
  }

  async finish(): Promise<readonly Uint8Array[]> {
    if (this.#out.length > 0) await this.#give(this.#out.take(0));
    this.#ready.push(...(await this.#codec.finish()));
    return this.#takeReady();
  }

  /** The rows before the last go to the codec. @returns false if there is no room: the row is not in the file */
  async #startChunk(rowStart: number): Promise<boolean> {
    if (rowStart > 0) {
      const whole = this.#out.take(this.#chunkBytes);
      const row = whole.subarray(rowStart);
      const head = whole.subarray(0, rowStart);
      if (row.length > this.#chunkBytes) {
        // A copy of the smaller part: the codec may keep the head's memory for long.
        await this.#give(Buffer.from(new Uint8Array(head).buffer));
        whole.copyWithin(0, rowStart);
        this.#out.bytes = whole;
        this.#out.view = viewOf(whole);
        this.#out.length = row.length;
      } else {
        await this.#give(head);
        this.#out.ensure(row.length);
        row.copy(this.#out.bytes);
        this.#out.length = row.length;
      }
    }
    const bytes = Math.max(this.#out.length, this.#chunkBytes);
    this.#hasReserve = !this.#hasRows || (await this.#hasRoom(bytes));
    if (!this.#hasReserve) this.#out.length = 0;
    return this.#hasReserve;
  }

  /** At once, so that no second large row is held beside it. */
  async #giveLargeRow(): Promise<void> {
    await this.#give(this.#out.take(this.#chunkBytes));
    this.#hasReserve = false;
  }

  /** @returns false if there is no room for it; then it is not in the file */
  async #takeLargeRow(rows: ViewedRows): Promise<boolean> {
    if (this.#out.length > 0) await this.#give(this.#out.take(this.#chunkBytes));
    const pieces: Buffer[] = [];
    const out = new ByteWriter(CHUNK_BYTES);
    let bytes = 0;
    const take = async () => {
      bytes += out.length;
      pieces.push(out.take(CHUNK_BYTES));
    };
    const written = this.#formatter.writeLargeRow(out, rows, this.taken);
    await writeInTurns(written, out, CHUNK_BYTES, take);
    await take();
    this.#hasReserve = !this.#hasRows || (await this.#hasRoom(bytes));
    if (!this.#hasReserve) return false;
    // None is held longer than it must.
    for (let piece = pieces.shift(); piece; piece = pieces.shift()) await this.#give(piece);
    this.#hasReserve = false;
    this.#hasRows = true;
    this.taken += 1;
    return true;
  }

  async #hasRoom(bytes: number): Promise<boolean> {
    if (worstCase(this.#known + this.#since + bytes) <= this.#maxBytes) return true;
    this.#keep(await this.#codec.flush());
    this.#known = this.#returned;
    this.#since = 0;
    return this.#known + worstCase(bytes) <= this.#maxBytes;
  }

  async #give(bytes: Buffer): Promise<void> {
    this.#since += bytes.length;
    this.#keep(await this.#codec.write(bytes));
  }

  #keep(chunks: readonly Uint8Array[]): void {
    for (const chunk of chunks) this.#returned += chunk.length;
    this.#ready.push(...chunks);
  }

  #takeReady(): readonly Uint8Array[] {
    const ready = this.#ready;
    this.#ready = [];
    return ready;
  }
}
