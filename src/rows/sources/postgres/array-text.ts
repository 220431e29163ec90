import { escapeOf, isEscapedByte, putJsonString } from '../../../foundation/domain/json-string.ts';
import { CopyFormatError } from './copy-format-error.ts';
import type { JsonDecoder } from './json-decoder.ts';

const NULL = Buffer.from('null');
const OPENING = 0x5b;
const CLOSING = 0x5d;
const COMMA = 0x2c;
const headerBytes = 12;
const dimensionBytes = 8;
const lengthBytes = 4;

/** PostgreSQL's own limit. */
const mostDimensions = 6;

/**
 * Arrays of a type, from their binary form (`array_send`): int32 dimensions, int32 flags, uint32 element type,
 * int32 size and lower bound of each dimension, then the elements, each after its int32 length; -1 is null.
 * Lower bounds are not in the JSON, as with `to_json`.
 */
export function arrayDecoder(element: JsonDecoder): JsonDecoder {
  return {
    bound(bytes, from, length) {
      const { sizes, start } = readHead(bytes, from, length);
      const end = from + length;
      // Brackets that may end and begin before an element, and a comma.
      const around = sizes.length === 1 ? 1 : sizes.length * 2 + 1;
      let bound = 2;
      let at = start;
      for (let left = countOf(sizes); left > 0; left -= 1) {
        const size = at + lengthBytes <= end ? bytes.readInt32BE(at) : end;
        at += lengthBytes;
        if (size < -1 || at + size > end) throw broken();
        bound += around + (size < 0 ? NULL.length : element.bound(bytes, at, size));
        at += Math.max(size, 0);
      }
      return bound;
    },
    write(target, at, bytes, from, length) {
      const { sizes, start } = readHead(bytes, from, length);
      const count = countOf(sizes);
      let to = at;
      let next = start;
      if (count === 0) {
        target[to++] = OPENING;
        target[to++] = CLOSING;
        return to;
      }
      for (let index = 0; index < count; index += 1) {
        const edges = edgesAt(sizes, index);
        if (index > 0) {
          for (let edge = 0; edge < edges; edge += 1) target[to++] = CLOSING;
          target[to++] = COMMA;
        }
        for (let edge = 0; edge < edges; edge += 1) target[to++] = OPENING;
        const size = bytes.readInt32BE(next);
        next += lengthBytes;
        if (size < 0) to += NULL.copy(target, to);
        else to = element.write(target, to, bytes, next, size);
        next += Math.max(size, 0);
      }
      for (let edge = 0; edge < sizes.length; edge += 1) target[to++] = CLOSING;
      return to;
    },
  };
}

/** How many dimensions begin at this element; all of them at the first. */
function edgesAt(sizes: readonly number[], index: number): number {
  let edges = 0;
  let span = 1;
  for (let dimension = sizes.length - 1; dimension >= 0; dimension -= 1) {
    span *= sizes[dimension] as number;
    if (index % span !== 0) break;
    edges += 1;
  }
  return edges;
}

const countOf = (sizes: readonly number[]): number =>
  sizes.length === 0 ? 0 : sizes.reduce((count, size) => count * size, 1);

function readHead(
  bytes: Buffer,
  from: number,
  length: number,
): { readonly sizes: readonly number[]; readonly start: number } {
  const dimensions = length < headerBytes ? -1 : bytes.readInt32BE(from);
  const start = from + headerBytes + dimensions * dimensionBytes;
  if (dimensions < 0 || dimensions > mostDimensions || start > from + length) throw broken();
  const sizes = Array.from({ length: dimensions }, (_, dimension) =>
    bytes.readInt32BE(from + headerBytes + dimension * dimensionBytes),
  );
  // Each element has at least its length.
  const isPossible = sizes.every((size) => size >= 0) && countOf(sizes) * lengthBytes <= length;
  if (!isPossible) throw broken();
  return { sizes, start };
}

const broken = () => new CopyFormatError('an array is not as long as it says');

/** Elements that are JSON strings. */
export const textElement: JsonDecoder = {
  bound(bytes, from, length) {
    let bound = length + 2;
    for (let at = from; at < from + length; at += 1) {
      const byte = bytes[at] as number;
      if (isEscapedByte[byte] === 1) bound += escapeOf(byte).length - 1;
    }
    return bound;
  },
  write: (target, at, bytes, from, length) => putJsonString(target, at, bytes, from, from + length),
};

/** Elements that are JSON, after `skipped` bytes. */
export const jsonElement = (skipped: number): JsonDecoder => ({
  bound: (_bytes, _from, length) => length,
  write: (target, at, bytes, from, length) =>
    at + bytes.copy(target, at, from + skipped, from + length),
});

export const boolElement: JsonDecoder = {
  bound(_bytes, _from, length) {
    if (length !== 1) throw broken();
    return 5;
  },
  write: (target, at, bytes, from) =>
    at + target.write(bytes[from] ? 'true' : 'false', at, 'latin1'),
};

/** Whole numbers of 2, 4 or 8 bytes. */
export const integerElement: JsonDecoder = {
  bound(bytes, from, length) {
    if (length !== 2 && length !== 4 && length !== 8) throw broken();
    return integerText(bytes, from, length).length;
  },
  write: (target, at, bytes, from, length) =>
    at + target.write(integerText(bytes, from, length), at, 'latin1'),
};

const integerText = (bytes: Buffer, from: number, length: number): string =>
  String(length === 8 ? bytes.readBigInt64BE(from) : bytes.readIntBE(from, length));

export const uuidElement: JsonDecoder = {
  bound(_bytes, _from, length) {
    if (length !== 16) throw broken();
    return 38;
  },
  write(target, at, bytes, from) {
    const hex = bytes.toString('hex', from, from + 16);
    const text = hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
    return at + target.write(`"${text}"`, at, 'latin1');
  },
};
