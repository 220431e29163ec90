import { createHash } from 'node:crypto';
import { deflateRawSync, inflateRaw } from 'node:zlib';
import { ByteWriter } from '../../foundation/domain/byte-writer.ts';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { promisify } from 'node:util';

/**
 * The part of Avro that Iceberg's manifests use. Field ids are Iceberg's: readers find fields by them.
 * https://avro.apache.org/docs/1.12.0/specification/
 */
type AvroType =
  | 'null'
  | 'int'
  | 'long'
  | 'string'
  | 'bytes'
  | AvroMap
  | AvroRecord
  | readonly ['null', AvroType];

export interface AvroRecord {
  readonly type: 'record';
  readonly name: string;
  readonly fields: readonly AvroField[];
}

/** A map of other keys than strings: an array of pairs. */
interface AvroMap {
  readonly type: 'array';
  readonly logicalType: 'map';
  readonly items: AvroRecord;
}

export interface AvroField {
  readonly name: string;
  readonly type: AvroType;
  readonly 'field-id': number;
  readonly default?: null;
}

/**
 * An `int` or `long` is a number below 2^53, an absent value of a union is null. A map is what `encodeMap` makes of
 * it: most maps are only copied from one file to the next.
 */
export type AvroValue = null | number | string | Uint8Array | AvroObject;

export interface AvroObject {
  readonly [name: string]: AvroValue;
}

const texts = new WeakMap<AvroRecord, string>();

export function textOf(schema: AvroRecord): string {
  const text = texts.get(schema) ?? JSON.stringify(schema);
  texts.set(schema, text);
  return text;
}

const avroMagic = Buffer.from('Obj\u0001');

const syncBytes = 16;

export const required = (id: number, name: string, type: AvroType): AvroField => ({
  name,
  type,
  'field-id': id,
});

export const optional = (id: number, name: string, type: AvroType): AvroField => ({
  name,
  type: ['null', type],
  'field-id': id,
  default: null,
});

/** @param ids of its key and value */
export const mapOf = (ids: readonly [number, number], value: AvroType): AvroMap => ({
  type: 'array',
  logicalType: 'map',
  items: {
    type: 'record',
    name: `k${ids[0]}_v${ids[1]}`,
    fields: [required(ids[0], 'key', 'int'), required(ids[1], 'value', value)],
  },
});

const blockBytes = 1 << 18;

/** An Avro file of the rows. Equal arguments give equal bytes. @param notes its metadata besides schema and codec */
export function encodeAvro(
  schema: AvroRecord,
  rows: readonly AvroObject[],
  notes: Readonly<Record<string, string>>,
): Buffer {
  const head = new ByteWriter(1 << 12);
  putBytes(head, avroMagic);
  const metadata = { 'avro.schema': textOf(schema), 'avro.codec': 'deflate', ...notes };
  putLong(head, Object.keys(metadata).length);
  for (const [name, value] of Object.entries(metadata)) {
    putText(head, name);
    putText(head, value);
  }
  putLong(head, 0);
  const start = head.take(0);
  // Between blocks; it need only be unlikely within them.
  const sync = createHash('sha256').update(start).digest().subarray(0, syncBytes);
  const parts: Buffer[] = [start, sync];
  let block = new ByteWriter(1 << 12);
  let count = 0;
  const flush = () => {
    if (count === 0) return;
    const bytes = deflateRawSync(block.take(0));
    const sizes = new ByteWriter(16);
    putLong(sizes, count);
    putLong(sizes, bytes.length);
    parts.push(sizes.take(0), bytes, sync);
    block = new ByteWriter(1 << 12);
    count = 0;
  };
  for (const row of rows) {
    putValue(block, schema, row);
    count += 1;
    if (block.length >= blockBytes) flush();
  }
  flush();
  return Buffer.concat(parts);
}

function putValue(out: ByteWriter, type: AvroType, value: AvroValue): void {
  if (type === 'null') return;
  if (type === 'int' || type === 'long') putLong(out, numberOf(value));
  else if (type === 'string') putText(out, String(value));
  else if (type === 'bytes') putLengthAndBytes(out, bytesOf(value));
  else if (isMap(type)) putBytes(out, bytesOf(value));
  else if (isUnion(type)) {
    putLong(out, value === null ? 0 : 1);
    putValue(out, value === null ? 'null' : type[1], value);
  } else {
    const row = value as AvroObject;
    for (const field of type.fields) putValue(out, field.type, row[field.name] ?? null);
  }
}

/** A map as a row has it. Its values are of the map's type. */
export function encodeMap(
  type: AvroMap,
  pairs: readonly (readonly [key: number, value: AvroValue])[],
): Buffer {
  const out = new ByteWriter(1 << 8);
  if (pairs.length > 0) putLong(out, pairs.length);
  for (const [key, value] of pairs) putValue(out, type.items, { key, value });
  putLong(out, 0);
  return out.take(0);
}

function isMap(type: AvroType): type is AvroMap {
  return typeof type === 'object' && 'items' in type;
}

function bytesOf(value: AvroValue): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw new TypeError(`not bytes: ${JSON.stringify(value)}`);
}

function isUnion(type: AvroType): type is readonly ['null', AvroType] {
  return Array.isArray(type);
}

function numberOf(value: AvroValue): number {
  if (Number.isSafeInteger(value)) return value as number;
  throw new TypeError(`not a whole number: ${JSON.stringify(value)}`);
}

/** A varint of the zigzag form, for a whole number below 2^52 of either sign. */
function putLong(out: ByteWriter, value: number): void {
  let rest = value < 0 ? -value * 2 - 1 : value * 2;
  while (rest > 0x7f) {
    out.put((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  out.put(rest);
}

const putText = (out: ByteWriter, text: string) => putLengthAndBytes(out, Buffer.from(text));

function putLengthAndBytes(out: ByteWriter, bytes: Uint8Array): void {
  putLong(out, bytes.length);
  putBytes(out, bytes);
}

function putBytes(out: ByteWriter, bytes: Uint8Array): void {
  out.ensure(bytes.length);
  out.bytes.set(bytes, out.length);
  out.length += bytes.length;
}

/** A block that unpacks to more is damaged, or an attack. */
const maxBlockBytes = 1 << 22;

/** Sluice writes blocks of 256 KiB, so a file of 64 MiB has 256. */
const maxBlocks = 2_000;

/** Maximum entries in the head of a file; Sluice writes eight. */
const maxNotes = 100;

/** The bytes that one reading makes without memory of its own. A table with a file per hour stays below it for months. */
const freeBytes = 1.5 * 1024 ** 2;

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
