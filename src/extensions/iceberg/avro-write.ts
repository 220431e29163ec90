import { createHash } from 'node:crypto';
import { deflateRawSync } from 'node:zlib';
import { ByteWriter } from '../../foundation/domain/byte-writer.ts';
import {
  type AvroMap,
  type AvroObject,
  type AvroRecord,
  type AvroType,
  type AvroValue,
  avroMagic,
  syncBytes,
  textOf,
} from './avro-schema.ts';

/** Bytes of rows per block, before compression. */
const blockBytes = 1 << 18;

/**
 * An Avro file of the rows. Equal arguments give equal bytes.
 *
 * @param notes its metadata besides schema and codec
 */
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

export function isMap(type: AvroType): type is AvroMap {
  return typeof type === 'object' && 'items' in type;
}

function bytesOf(value: AvroValue): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw new TypeError(`not bytes: ${JSON.stringify(value)}`);
}

export function isUnion(type: AvroType): type is readonly ['null', AvroType] {
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
