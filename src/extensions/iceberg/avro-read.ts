import { setImmediate as nextTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { inflateRaw } from 'node:zlib';
import {
  type AvroObject,
  type AvroRecord,
  type AvroType,
  type AvroValue,
  avroMagic,
  syncBytes,
  textOf,
} from './avro-schema.ts';
import { isMap, isUnion } from './avro-write.ts';

/** A block that unpacks to more is damaged, or an attack. */
const maxBlockBytes = 1 << 22;

/** Sluice writes blocks of 256 KiB, so a file of 64 MiB has 256. */
const maxBlocks = 2_000;

/** Maximum entries in the head of a file; Sluice writes eight. */
const maxNotes = 100;

/** The bytes that one reading makes without memory of its own. A table with a file per hour stays below it for months. */
const freeBytes = 1.5 * 1024 ** 2;

/** The size of an object of a row besides its texts. */
const rowBytes = 256;

/** Rows between two turns of the event loop. */
const sliceRows = 2_000;

/** The bytes that may still be made of the files of one reading: a few packed bytes can be many, in each block of each file. */
export class ReadingBudget {
  #bytes: number;
  #rows: number;
  #free = freeBytes;
  readonly #holds: (bytes: number) => void;

  /**
   * @param bytes after unpacking, of all files; a row takes about as much again
   * @param holds called before many bytes are made; throws if there is no memory for them
   */
  constructor(bytes: number, rows: number, holds: (bytes: number) => void = () => {}) {
    this.#bytes = bytes;
    this.#rows = rows;
    this.#holds = holds;
  }

  /** @throws RangeError if it is more than is left */
  take(bytes: number, rows: number): void {
    const size = bytes + rows * rowBytes;
    const isFree = this.#free >= size;
    this.#free -= isFree ? size : this.#free;
    if (!isFree) this.#holds(size);
    this.#bytes -= bytes;
    this.#rows -= rows;
    if (this.#bytes < 0) throw new RangeError('more bytes than one reading may unpack');
    if (this.#rows < 0) throw new RangeError('too many rows');
  }
}

/**
 * Lets others run between blocks and slices of rows.
 *
 * @throws RangeError if the bytes are not an Avro file of the schema, as `encodeAvro` writes it, or more would
 *   be made of it than is left of the budget
 */
export async function decodeAvro(
  schema: AvroRecord,
  bytes: Buffer,
  budget: ReadingBudget,
): Promise<AvroObject[]> {
  const file = new Reader(bytes);
  if (!file.take(avroMagic.length).equals(avroMagic)) throw new RangeError('no Avro file');
  const metadata = readMetadata(file);
  if (metadata.get('avro.schema') !== textOf(schema))
    throw new RangeError('an Avro file of another schema');
  const sync = file.take(syncBytes);
  const rows: AvroObject[] = [];
  for (let blocks = 1; !file.isAtEnd; blocks += 1) {
    if (blocks > maxBlocks) throw new RangeError('too many blocks');
    const count = file.long();
    const packed = file.take(file.long());
    if (!file.take(syncBytes).equals(sync)) throw new RangeError('a damaged block');
    if (count < 1) throw new RangeError('a block without rows');
    budget.take(0, count);
    const unpacked = await unpack(packed);
    budget.take(unpacked.length, 0);
    const block = new Reader(unpacked);
    for (let row = 0; row < count; row += 1) {
      if (row % sliceRows === sliceRows - 1) await nextTurn();
      rows.push(readValue(block, schema) as AvroObject);
    }
    if (!block.isAtEnd) throw new RangeError('a block has more bytes than rows');
  }
  return rows;
}

const inflate = promisify(inflateRaw) as (
  packed: Buffer,
  options: { readonly maxOutputLength: number },
) => Promise<Buffer>;

async function unpack(packed: Buffer): Promise<Buffer> {
  try {
    return await inflate(packed, { maxOutputLength: maxBlockBytes });
  } catch (error) {
    throw new RangeError('a damaged block', { cause: error });
  }
}

function readMetadata(file: Reader): ReadonlyMap<string, string> {
  const metadata = new Map<string, string>();
  for (let remaining = file.long(); remaining !== 0; remaining = file.long()) {
    if (remaining < 0) throw new RangeError('an unknown form of metadata');
    if (metadata.size + remaining > maxNotes) throw new RangeError('too much metadata');
    for (; remaining > 0; remaining -= 1) metadata.set(file.text(), file.text());
  }
  return metadata;
}

function readValue(from: Reader, type: AvroType): AvroValue {
  if (type === 'null') return null;
  if (type === 'int' || type === 'long') return from.long();
  if (type === 'string') return from.text();
  if (type === 'bytes') return from.take(from.long());
  if (isMap(type)) return from.since(() => skipMap(from, type.items));
  if (isUnion(type)) return readValue(from, from.long() === 0 ? 'null' : type[1]);
  return Object.fromEntries(type.fields.map(({ name, type: of }) => [name, readValue(from, of)]));
}

function skipMap(from: Reader, pair: AvroRecord): void {
  for (let remaining = from.long(); remaining !== 0; remaining = from.long()) {
    if (remaining < 0) throw new RangeError('an unknown form of a map');
    for (; remaining > 0; remaining -= 1) readValue(from, pair);
  }
}

/** The weight of the last of the ten bytes that a number of 64 bits can have. */
const maxWeight = 0x80 ** 9;

/** Reads bytes in order. Each method throws RangeError beyond the end. */
class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  /** The bytes that `read` takes: a copy, which does not keep the block. */
  since(read: () => void): Buffer {
    const start = this.#at;
    read();
    return Buffer.from(this.#bytes.subarray(start, this.#at));
  }

  take(length: number): Buffer {
    const end = this.#at + length;
    if (length < 0 || end > this.#bytes.length) throw new RangeError('the file is cut off');
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }

  long(): number {
    let value = 0;
    for (let weight = 1; ; weight *= 0x80) {
      const [byte = 0] = this.take(1);
      value += (byte & 0x7f) * weight;
      if (value > Number.MAX_SAFE_INTEGER || weight > maxWeight)
        throw new RangeError('a number is too large');
      if (byte < 0x80) break;
    }
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  text(): string {
    return this.take(this.long()).toString();
  }
}
