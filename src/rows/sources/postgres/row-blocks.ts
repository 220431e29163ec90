import { viewOf } from '../../../foundation/domain/byte-writer.ts';
import type { Column, RowBlock } from '../../../foundation/domain/row-block.ts';
import { RowSkimmer } from './row-skimmer.ts';

/** `PGCOPY\n\377\r\n\0`, then int32 flags, then int32 length of a header extension. */
const SIGNATURE = Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1');
const FIXED_HEADER_BYTES = SIGNATURE.length + 8;
/** Bits 16–31 of the flags are critical: a reader that does not know one must stop. */
const CRITICAL_FLAGS = 0xffff0000;
const TRAILER = 0xffff;
/** Maximum size of a PostgreSQL value; a longer one means a broken stream. */
const MAX_FIELD_BYTES = 0x40000000;
/** Room after a large value, so that the small fields after it need no further growth. */
const GROWTH_BYTES = 65_536;
/** Memory of the first block at the start: most runs have few rows. */
const FIRST_BYTES = 32_768;

interface Lent {
  readonly memory: BlockMemory;
  readonly block: { bytes: Buffer };
}

export interface SourceBlock extends RowBlock {
  /** Its memory needed a permit. */
  readonly isLarge: boolean;
  /** Like `offsets` and `lengths`, for the columns after `columns`. */
  readonly hiddenOffsets: Int32Array;
  readonly hiddenLengths: Int32Array;
}

interface RowLimits {
  readonly hidden?: number;
  /** A larger row is refused by its field lengths, and never held. */
  readonly maxRowBytes?: number;
  /** A row that needs more is held only after `permit`. */
  readonly freeBytes?: number;
}

/**
 * Blocks of at most `blockBytes`; only a larger row makes a larger one. Cuts depend on the bytes alone, not on chunks.
 * Format: https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-BINARY-FORMAT Released memory is reused: a run
 * of any length needs only that of a few blocks.
 */
export class RowBlockBuilder {
  readonly #columns: readonly Column[];
  readonly #hidden: number;
  readonly #blockBytes: number;
  readonly #maxRowBytes: number;
  readonly #freeBytes: number;
  #permittedBytes: number;
  /** Null unless the row at `#rowStart` waits for a permit. */
  #wantedBytes: number | null = null;
  #skimmer: RowSkimmer | null = null;
  #ready: SourceBlock[] = [];
  /** The block being filled, those given out (in order), and those that came back. */
  #memory: BlockMemory;
  readonly #lent: Lent[] = [];
  readonly #spare: BlockMemory[] = [];
  #end = 0;
  /** Start of the first incomplete row; the bytes before it are parsed. */
  #rowStart = 0;
  /** The row at `#rowStart` is known to reach at least this far. */
  #rowReach = 0;
  #rows = 0;
  #headerSeen = false;
  #trailerSeen = false;
  #totalRows = 0;

  constructor(columns: readonly Column[], blockBytes: number, limits: RowLimits = {}) {
    const { hidden = 0, maxRowBytes = MAX_FIELD_BYTES, freeBytes = MAX_FIELD_BYTES } = limits;
    this.#maxRowBytes = maxRowBytes;
    this.#freeBytes = freeBytes;
    this.#permittedBytes = freeBytes;
    this.#columns = columns;
    this.#hidden = hidden;
    this.#blockBytes = Math.max(blockBytes, 64);
    this.#memory = this.#allocate(Math.min(FIRST_BYTES, this.#blockBytes));
  }

  get totalRows(): number {
    return this.#totalRows;
  }

  /** The bytes for which `permit` must be called before `append` continues; null if it takes all. */
  get wantedBytes(): number | null {
    return this.#wantedBytes;
  }

  permit(): void {
    this.#permittedBytes = this.#wantedBytes ?? this.#permittedBytes;
    this.#wantedBytes = null;
  }

  /** Copies `chunk[start, end)`. Stops before `end` if a row needs a permit. @throws CopyFormatError, RowTooLargeError */
  append(chunk: Buffer, start: number, end: number): number {
    let from = start;
    while (from < end) {
      if (this.#skimmer) {
        this.#skimmer.skim(chunk, from, end);
        return end;
      }
      const { bytes } = this.#memory;
      const room = bytes.length - this.#end;
      if (room === 0) {
        this.#makeRoom();
        if (this.#wantedBytes !== null) return from;
        continue;
      }
      const to = Math.min(end, from + room);
      chunk.copy(bytes, this.#end, from, to);
      this.#end += to - from;
      from = to;
    }
    return end;
  }

  take(): SourceBlock[] {
    const ready = this.#ready;
    if (ready.length > 0) this.#ready = [];
    return ready;
  }

  /** The oldest block that was taken is no longer read. */
  release(): void {
    const lent = this.#lent.shift();
    if (lent?.memory.bytes.length === this.#blockBytes) this.#spare.push(lent.memory);
    // Memory that a large row has enlarged is not kept, even if a suspended function still has the block.
    else if (lent) lent.block.bytes = Buffer.alloc(0);
  }

  /** @throws CopyFormatError if bytes are missing */
  finish(): SourceBlock[] {
    this.#parse();
    this.#skimmer?.fail();
    if (!this.#trailerSeen) throw new CopyFormatError('the row stream ended before its trailer');
    if (this.#rows > 0) this.#emit();
    return this.take();
  }

  /** The buffer is full: grows it to a block, passes on its whole rows, or grows it for a row larger than a block. */
  #makeRoom(): void {
    const { bytes: given } = this.#memory;
    if (given.length < this.#blockBytes) {
      growBytes(this.#memory, this.#blockBytes, this.#end);
      return;
    }
    this.#parse();
    if (this.#skimmer) return;
    if (this.#rows === 0 && this.#rowStart === 0) {
      const { bytes } = this.#memory;
      const size = Math.max(bytes.length * 1.25, this.#rowReach) + GROWTH_BYTES;
      if (size > this.#permittedBytes) {
        // Enough for most rows of several large fields: two of them should not wait for each other.
        this.#wantedBytes = Math.min(Math.trunc(size * 2), this.#maxRowBytes + GROWTH_BYTES * 2);
        if (this.#wantedBytes < size) this.#wantedBytes = Math.trunc(size);
        return;
      }
      growBytes(this.#memory, Math.trunc(size), this.#end);
      return;
    }
    this.#emit();
  }

  #emit(): void {
    const { length } = this.#columns;
    const { bytes, offsets, lengths, hiddenOffsets, hiddenLengths } = this.#memory;
    const tail = bytes.subarray(this.#rowStart, this.#end);
    if (this.#rows > 0) {
      const block = {
        isLarge: bytes.length > this.#freeBytes,
        columns: this.#columns,
        rowCount: this.#rows,
        bytes: bytes.subarray(0, this.#rowStart),
        offsets: offsets.subarray(0, this.#rows * length),
        lengths: lengths.subarray(0, this.#rows * length),
        hiddenOffsets: hiddenOffsets.subarray(0, this.#rows * this.#hidden),
        hiddenLengths: hiddenLengths.subarray(0, this.#rows * this.#hidden),
      };
      this.#ready.push(block);
      this.#lent.push({ memory: this.#memory, block });
    }
    const needed = Math.max(this.#blockBytes, tail.length);
    this.#permittedBytes = this.#freeBytes;
    const spare = needed === this.#blockBytes ? this.#spare.pop() : undefined;
    this.#memory = spare ?? this.#allocate(needed);
    tail.copy(this.#memory.bytes);
    this.#end = tail.length;
    this.#rowStart = 0;
    this.#rows = 0;
  }

  #allocate(size: number): BlockMemory {
    return allocateBlock(size, this.#columns.length, this.#hidden);
  }

  #parse(): void {
    if (this.#skimmer || (!this.#headerSeen && !this.#parseHeader())) return;
    while (!this.#trailerSeen && this.#parseRow()) {
      this.#rows += 1;
      this.#totalRows += 1;
    }
    if (this.#trailerSeen && this.#rowStart < this.#end) {
      throw new CopyFormatError('bytes follow the trailer of the row stream');
    }
  }

  #parseHeader(): boolean {
    if (this.#end < FIXED_HEADER_BYTES) return false;
    const { bytes } = this.#memory;
    if (bytes.compare(SIGNATURE, 0, SIGNATURE.length, 0, SIGNATURE.length) !== 0) {
      throw new CopyFormatError('the row stream has no COPY signature');
    }
    if ((bytes.readUInt32BE(SIGNATURE.length) & CRITICAL_FLAGS) !== 0) {
      throw new CopyFormatError('the row stream has flags that are not known');
    }
    const headerBytes = FIXED_HEADER_BYTES + bytes.readUInt32BE(SIGNATURE.length + 4);
    this.#rowReach = headerBytes;
    if (this.#end < headerBytes) return false;
    this.#headerSeen = true;
    this.#rowStart = headerBytes;
    return true;
  }

  /** @returns whether there was a whole row at `#rowStart`; it is then recorded */
  #parseRow(): boolean {
    const { bytes, view } = this.#memory;
    const end = this.#end;
    const width = this.#columns.length;
    let at = this.#rowStart;
    this.#rowReach = at + 2;
    if (at + 2 > end) return false;
    const fields = view.getUint16(at);
    at += 2;
    if (fields === TRAILER) {
      this.#trailerSeen = true;
      this.#rowStart = at;
      return false;
    }
    const hidden = this.#hidden;
    if (fields !== width + hidden) {
      throw new CopyFormatError(`a row has ${fields} fields, ${width + hidden} were described`);
    }
    const rows = this.#rows;
    if (rows * width + width > this.#memory.offsets.length)
      growPositions(this.#memory, width, this.#hidden);
    const { offsets, lengths, hiddenOffsets, hiddenLengths } = this.#memory;
    at = this.#parseFields(at, offsets, lengths, rows * width, width);
    if (at >= 0 && hidden > 0) {
      at = this.#parseFields(at, hiddenOffsets, hiddenLengths, rows * hidden, hidden);
    }
    const reach = at < 0 ? this.#rowReach : at;
    if (reach - this.#rowStart > this.#maxRowBytes) {
      this.#skimmer = new RowSkimmer();
      this.#skimmer.skim(bytes, this.#rowStart, end);
      return false;
    }
    if (at < 0) return false;
    this.#rowStart = at;
    return true;
  }

  /** @returns where the fields end, or -1 if they are not whole */
  #parseFields(
    start: number,
    offsets: Int32Array,
    lengths: Int32Array,
    first: number,
    count: number,
  ): number {
    const { view } = this.#memory;
    const end = this.#end;
    let at = start;
    for (let index = first; index < first + count; index += 1) {
      if (at + 4 > end) {
        this.#rowReach = at + 4;
        return -1;
      }
      const length = view.getInt32(at);
      at += 4;
      offsets[index] = at;
      lengths[index] = length;
      if (length < -1 || length > MAX_FIELD_BYTES) {
        throw new CopyFormatError(`a field has the impossible length ${length}`);
      }
      if (length > 0) at += length;
      if (at > end) {
        this.#rowReach = at;
        return -1;
      }
    }
    return at;
  }
}

export class CopyFormatError extends Error {
  override readonly name = 'CopyFormatError';
}

interface BlockMemory {
  bytes: Buffer;
  view: DataView;
  offsets: Int32Array;
  lengths: Int32Array;
  hiddenOffsets: Int32Array;
  hiddenLengths: Int32Array;
}

/** Rows for which there are positions at first. */
const firstRows = 256;

/** @param width columns of a row. @param hidden hidden fields of a row */
function allocateBlock(size: number, width: number, hidden: number): BlockMemory {
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

function growBytes(memory: BlockMemory, size: number, kept: number): void {
  const larger = Buffer.allocUnsafeSlow(size);
  memory.bytes.copy(larger, 0, 0, kept);
  memory.bytes = larger;
  memory.view = viewOf(larger);
}

function growPositions(memory: BlockMemory, width: number, hidden: number): void {
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
