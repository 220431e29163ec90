import { randomUUID } from 'node:crypto';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';

export interface SpoolLimits {
  /** Bytes of rows in memory; more go to the disk. */
  readonly memoryBytes: number;
  /** A block that is read back ends with the row that reaches it. */
  readonly blockBytes: number;
}

export const usualSpoolLimits: SpoolLimits = {
  memoryBytes: 16 * 1024 ** 2,
  blockBytes: 256 * 1024,
};

/** A group's first buffer, and the largest that has room for more than one row. */
const firstBytes = 256;
const lastBytes = 64 * 1024;
const writeBytes = 1 << 20;

interface OpenBuffer {
  bytes: Buffer;
  filled: number;
}

interface Group {
  /** Pairs of position and length in the file. */
  readonly onDisk: number[];
  readonly full: Buffer[];
  open: OpenBuffer | null;
}

/** Rows by group, in their order. Many go to a file without a name, which goes with the process. Call `close` at the end. */
export class RowSpool {
  readonly #columns: readonly Column[];
  readonly #limits: SpoolLimits;
  readonly #groups = new Map<number, Group>();
  #file: FileHandle | null = null;
  #written = 0;
  #heldBytes = 0;
  #bytes = 0;

  constructor(columns: readonly Column[], limits: SpoolLimits = usualSpoolLimits) {
    this.#columns = columns;
    this.#limits = limits;
  }

  /** Bytes of the rows since the last `clear`. It depends on the rows alone. */
  get bytes(): number {
    return this.#bytes;
  }

  get groups(): readonly number[] {
    return [...this.#groups.keys()];
  }

  /** @returns what to wait for before the next row, if many rows go to the disk now */
  add(group: number, block: RowBlock, row: number): Promise<void> | undefined {
    const { bytes, offsets, lengths } = block;
    const first = row * this.#columns.length;
    const end = first + this.#columns.length;
    let needed = 4 * this.#columns.length;
    for (let field = first; field < end; field += 1) needed += Math.max(0, lengths[field] ?? 0);
    const target = this.#makeRoom(group, needed);
    for (let field = first; field < end; field += 1) {
      const length = lengths[field] ?? -1;
      const from = offsets[field] ?? 0;
      target.filled = target.bytes.writeInt32LE(length, target.filled);
      if (length > 0) target.filled += bytes.copy(target.bytes, target.filled, from, from + length);
    }
    this.#bytes += needed;
    return this.#heldBytes > this.#limits.memoryBytes ? this.#drain() : undefined;
  }

  #makeRoom(number: number, needed: number): OpenBuffer {
    let group = this.#groups.get(number);
    if (!group) {
      group = { onDisk: [], full: [], open: null };
      this.#groups.set(number, group);
    }
    const { open } = group;
    if (open && open.filled + needed <= open.bytes.length) return open;
    if (open && open.filled + needed <= lastBytes) {
      const larger = this.#allocate(Math.min(lastBytes, Math.max(4 * open.bytes.length, needed)));
      open.bytes.copy(larger, 0, 0, open.filled);
      this.#heldBytes -= open.bytes.length;
      open.bytes = larger;
      return open;
    }
    if (open) group.full.push(open.bytes.subarray(0, open.filled));
    group.open = {
      bytes: this.#allocate(Math.max(open ? lastBytes : firstBytes, needed)),
      filled: 0,
    };
    return group.open;
  }

  #allocate(bytes: number): Buffer {
    this.#heldBytes += bytes;
    return Buffer.allocUnsafeSlow(bytes);
  }

  async #drain(): Promise<void> {
    const file = await this.#openFile();
    let pieces: Buffer[] = [];
    let waiting = 0;
    const write = async () => {
      await file.appendFile(Buffer.concat(pieces));
      pieces = [];
      waiting = 0;
    };
    for (const group of this.#groups.values()) {
      for (const piece of heldBy(group)) {
        group.onDisk.push(this.#written, piece.length);
        this.#written += piece.length;
        pieces.push(piece);
        waiting += piece.length;
        if (waiting >= writeBytes) await write();
      }
      group.full.length = 0;
      group.open = null;
    }
    await write();
    this.#heldBytes = 0;
  }

  async #openFile(): Promise<FileHandle> {
    if (this.#file) return this.#file;
    const path = join(tmpdir(), `sluice-rows-${randomUUID()}`);
    this.#file = await open(path, 'ax+', 0o600);
    await unlink(path);
    return this.#file;
  }

  /** The rows of a group. The blocks depend on them alone, not on the blocks in which they came. */
  async *read(number: number): AsyncGenerator<RowBlock> {
    const group = this.#groups.get(number);
    if (!group) return;
    let cut = new BlockCut(this.#columns);
    for await (const piece of this.#pieces(group)) {
      let from = 0;
      for (let at = 0; at < piece.length; ) {
        at = cut.addRow(piece, at);
        if (cut.bytes < this.#limits.blockBytes) continue;
        yield cut.end(piece.subarray(from, at));
        from = at;
        cut = new BlockCut(this.#columns);
      }
      cut.addPiece(piece.subarray(from));
    }
    if (cut.rows > 0) yield cut.end(Buffer.alloc(0));
  }

  async *#pieces({ onDisk, full, open: last }: Group): AsyncGenerator<Buffer> {
    for (let index = 0; index < onDisk.length; index += 2) {
      const length = onDisk[index + 1] ?? 0;
      const piece = Buffer.allocUnsafeSlow(length);
      const read = await this.#file?.read(piece, 0, length, onDisk[index] ?? 0);
      if (read?.bytesRead !== length) throw new Error('the spool of rows is shorter than written');
      yield piece;
    }
    yield* heldBy({ full, open: last });
  }

  async clear(): Promise<void> {
    this.#groups.clear();
    this.#heldBytes = 0;
    this.#bytes = 0;
    this.#written = 0;
    await this.#file?.truncate(0);
  }

  async close(): Promise<void> {
    this.#groups.clear();
    const file = this.#file;
    this.#file = null;
    await file?.close();
  }
}

function heldBy({ full, open: last }: Pick<Group, 'full' | 'open'>): readonly Buffer[] {
  return last ? [...full, last.bytes.subarray(0, last.filled)] : full;
}

/** A block that is put together of rows as the spool has them: each field's length, then its bytes. */
class BlockCut {
  readonly #columns: readonly Column[];
  readonly #pieces: Buffer[] = [];
  readonly #offsets: number[] = [];
  readonly #lengths: number[] = [];
  bytes = 0;
  rows = 0;

  constructor(columns: readonly Column[]) {
    this.#columns = columns;
  }

  /** @returns where the row ends in its piece */
  addRow(piece: Buffer, from: number): number {
    let at = from;
    for (let column = 0; column < this.#columns.length; column += 1) {
      const length = piece.readInt32LE(at);
      at += 4;
      this.#offsets.push(this.bytes + at - from);
      this.#lengths.push(length);
      at += Math.max(0, length);
    }
    this.bytes += at - from;
    this.rows += 1;
    return at;
  }

  /** The bytes of rows that were added. */
  addPiece(piece: Buffer): void {
    if (piece.length > 0) this.#pieces.push(piece);
  }

  end(piece: Buffer): RowBlock {
    this.addPiece(piece);
    const [only, ...others] = this.#pieces;
    return {
      columns: this.#columns,
      rowCount: this.rows,
      bytes: only && others.length === 0 ? only : Buffer.concat(this.#pieces),
      offsets: Int32Array.from(this.#offsets),
      lengths: Int32Array.from(this.#lengths),
    };
  }
}
