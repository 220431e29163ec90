import { numericTextBytes, writeNumeric } from '../../../foundation/domain/numeric-text.ts';
import {
  arrayDecoder,
  boolElement,
  integerElement,
  jsonElement,
  textElement,
  uuidElement,
} from './array-text.ts';
import { CopyFormatError } from './copy-format-error.ts';
import type { JsonDecoder } from './json-decoder.ts';

const numericHeaderBytes = 8;

/** @throws CopyFormatError if the field is no numeric */
export function checkNumeric(bytes: Buffer, from: number, length: number): void {
  const digits = ((bytes[from] as number) << 8) | (bytes[from + 1] as number);
  if (length !== numericHeaderBytes + digits * 2) {
    throw new CopyFormatError('a numeric is not as long as it says');
  }
}

/** Its bound is exact, and it may be written over the field. */
export const numericDecoder: JsonDecoder = {
  bound(bytes, from, length) {
    checkNumeric(bytes, from, length);
    return numericTextBytes(bytes, from);
  },
  write: writeNumeric,
};

/** Leaves a field as it is, but checks it. */
export const keptNumeric: JsonDecoder = { ...numericDecoder };

/**
 * By the fixed OID of the type (`pg_type.dat`). Not numeric[]: a few bytes of each element can have a text of
 * thousands.
 */
const decoders: ReadonlyMap<number, JsonDecoder> = new Map([
  [1700, numericDecoder],
  [1000, arrayDecoder(boolElement)],
  [1005, arrayDecoder(integerElement)], // int2[]
  [1007, arrayDecoder(integerElement)], // int4[]
  [1016, arrayDecoder(integerElement)], // int8[]
  [1003, arrayDecoder(textElement)], // name[]
  [1009, arrayDecoder(textElement)], // text[]
  [1014, arrayDecoder(textElement)], // character(n)[]
  [1015, arrayDecoder(textElement)], // character varying[]
  [2951, arrayDecoder(uuidElement)],
  [199, arrayDecoder(jsonElement(0))], // json[]
  [3807, arrayDecoder(jsonElement(1))], // jsonb[]: the version of its form goes before each
]);

/** How values of the type are decoded here; null if the server has to print them. */
export const decoderOf = (typeOid: number): JsonDecoder | null => decoders.get(typeOid) ?? null;
