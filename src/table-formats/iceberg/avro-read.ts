import { inflateRawSync } from 'node:zlib';
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

/** Of a file. */
const maxRows = 100_000;

/** @throws RangeError if the bytes are not an Avro file of one of the schemas, as `encodeAvro` writes it */
export function decodeAvro(schemas: readonly AvroRecord[], bytes: Buffer): AvroObject[] {
  const file = new Reader(bytes);
  if (!file.take(avroMagic.length).equals(avroMagic)) throw new RangeError('no Avro file');
  const metadata = readMetadata(file);
  const found = metadata.get('avro.schema');
  const schema = schemas.find((known) => textOf(known) === found);
  if (!schema) throw new RangeError('an Avro file of another schema');
  const sync = file.take(syncBytes);
  const rows: AvroObject[] = [];
  while (!file.isAtEnd) {
    const count = file.long();
    const packed = file.take(file.long());
    if (!file.take(syncBytes).equals(sync)) throw new RangeError('a damaged block');
    if (count < 0 || rows.length + count > maxRows) throw new RangeError('too many rows');
    const block = new Reader(unpack(packed));
    for (let row = 0; row < count; row += 1) rows.push(readValue(block, schema) as AvroObject);
    if (!block.isAtEnd) throw new RangeError('a block has more bytes than rows');
  }
  return rows;
}

function unpack(packed: Buffer): Buffer {
  try {
    return inflateRawSync(packed, { maxOutputLength: maxBlockBytes });
  } catch (error) {
    throw new RangeError('a damaged block', { cause: error });
  }
}

function readMetadata(file: Reader): ReadonlyMap<string, string> {
  const metadata = new Map<string, string>();
  for (let left = file.long(); left !== 0; left = file.long()) {
    if (left < 0) throw new RangeError('an unknown form of metadata');
    for (; left > 0; left -= 1) metadata.set(file.text(), file.text());
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
  for (let left = from.long(); left !== 0; left = from.long()) {
    if (left < 0) throw new RangeError('an unknown form of a map');
    for (; left > 0; left -= 1) readValue(from, pair);
  }
}

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
      if (value > Number.MAX_SAFE_INTEGER) throw new RangeError('a number is too large');
      if (byte < 0x80) break;
    }
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  text(): string {
    return this.take(this.long()).toString();
  }
}
