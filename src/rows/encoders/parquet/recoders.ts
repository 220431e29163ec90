import { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import { copyValue } from './byte-arrays.ts';
import { physicalType } from './column-types.ts';
import { putDeltas } from './delta.ts';
import { encoding, type OpenPage } from './page.ts';

/** Another encoding than PLAIN for the values of a page. */
export interface Recoder {
  readonly encoding: number;
  /** PLAIN bytes of a trial's values; undefined if values have no fixed width. */
  readonly width: number | undefined;
  /** Appends the PLAIN values at [from, end); false if the encoding does not have them. */
  put(plain: ByteWriter, from: number, end: number, out: ByteWriter): boolean;
}

const word = 0x1_0000_0000;
/** Halves of numbers below 2^51 in size: their differences are exact. */
const maxHigh = 2 ** 19;

/** Bytes of PLAIN values that a trial takes. */
const trialBytes = 32 * 1024;
/** PLAIN is faster to read, so the other encoding must save a little. */
const worthwhile = 0.97;

/** Numbers of the page that is encoded. */
let numbers = new Float64Array(0);

function roomFor(count: number): Float64Array {
  if (count > numbers.length) numbers = new Float64Array(count);
  return numbers;
}

function deltas(bits: 32 | 64): Recoder {
  const width = bits / 8;
  return {
    encoding: encoding.deltaBinaryPacked,
    width,
    put({ view }, from, end, out) {
      const count = (end - from) / width;
      const values = roomFor(count);
      for (let index = 0, at = from; index < count; index++, at += width) {
        if (bits === 32) values[index] = view.getInt32(at, true);
        else {
          const high = view.getInt32(at + 4, true);
          if (high >= maxHigh || high < -maxHigh) return false;
          values[index] = high * word + view.getUint32(at, true);
        }
      }
      return putDeltas(out, values, count, bits);
    },
  };
}

/** The first bytes of all values, then the second ones, and so on. */
function splitBytes(width: 4 | 8): Recoder {
  return {
    encoding: encoding.byteStreamSplit,
    width,
    put({ bytes }, from, end, out) {
      out.ensure(end - from);
      const target = out.bytes;
      let at = out.length;
      for (let byte = 0; byte < width; byte++) {
        for (let source = from + byte; source < end; source += width) {
          target[at++] = bytes[source] as number;
        }
      }
      out.length = at;
      return true;
    },
  };
}

/** All lengths, then all bytes. */
const lengthsFirst: Recoder = {
  encoding: encoding.deltaLengthByteArray,
  width: undefined,
  put({ bytes, view }, from, end, out) {
    let count = 0;
    for (let at = from; at < end; at += 4 + view.getUint32(at, true)) count++;
    const lengths = roomFor(count);
    for (let index = 0, at = from; index < count; index++) {
      const length = view.getUint32(at, true);
      lengths[index] = length;
      at += 4 + length;
    }
    if (!putDeltas(out, lengths, count, 32)) return false;
    out.ensure(end - from - count * 4);
    const { bytes: target, view: targetView } = out;
    let to = out.length;
    for (let index = 0, at = from; index < count; index++) {
      const length = lengths[index] as number;
      copyValue(target, targetView, to, bytes, view, at + 4, length);
      to += length;
      at += 4 + length;
    }
    out.length = to;
    return true;
  },
};

/** The encoding to try beside PLAIN; undefined if there is none for the type. */
export function recoderOf(physical: number): Recoder | undefined {
  switch (physical) {
    case physicalType.int32:
      return deltas(32);
    case physicalType.int64:
      return deltas(64);
    case physicalType.float:
      return splitBytes(4);
    case physicalType.double:
      return splitBytes(8);
    case physicalType.byteArray:
      return lengthsFirst;
    default:
      return undefined;
  }
}

/** Compressed bytes of a page's beginning. */
export type SizeOf = (plain: Buffer) => Promise<number>;

/** Which encoding a chunk's pages get: what is smaller for the first values, compressed. */
export class EncodingChoice {
  readonly #recoder: Recoder | undefined;
  #recodes: boolean | undefined;
  /** On its way. */
  #trial: Promise<boolean> | undefined;

  constructor(recoder: Recoder | undefined) {
    this.#recoder = recoder;
  }

  /** Begins to decide once the open page has the values for it, so that nothing waits when it is full. */
  prepare(page: OpenPage, sizeOf: SizeOf): void {
    if (page.valueBytes >= trialBytes) this.#begin(page, sizeOf);
  }

  /** Decides by the open page, once per chunk. */
  async choose(page: OpenPage, sizeOf: SizeOf): Promise<void> {
    if (page.valueBytes > 0) this.#begin(page, sizeOf);
    if (this.#trial === undefined) return;
    this.#recodes = await this.#trial;
    this.#trial = undefined;
  }

  #begin(page: OpenPage, sizeOf: SizeOf): void {
    const recoder = this.#recoder;
    if (recoder === undefined || this.#recodes !== undefined || this.#trial !== undefined) return;
    this.#trial = saves(recoder, page, sizeOf);
    // `choose` gets the error.
    this.#trial.catch(() => {});
  }

  /** Changes the open page's values if they are to have the other encoding; returns the encoding. */
  apply(page: OpenPage): number {
    const recoder = this.#recoder;
    if (recoder === undefined || this.#recodes !== true) return encoding.plain;
    return page.recode(recoder) ? recoder.encoding : encoding.plain;
  }

  startChunk(): void {
    this.#recodes = undefined;
  }
}

/** Says whether the page's first values, which must not change meanwhile, are smaller in the other encoding. */
async function saves(recoder: Recoder, page: OpenPage, sizeOf: SizeOf): Promise<boolean> {
  const { sink, valuesStart: from } = page;
  const end = trialEnd(sink, from, recoder.width);
  const other = new ByteWriter(1024);
  if (!recoder.put(sink, from, end, other)) return false;
  const [plainSize, otherSize] = await Promise.all([
    sizeOf(sink.bytes.subarray(from, end)),
    sizeOf(other.bytes.subarray(0, other.length)),
  ]);
  return otherSize < plainSize * worthwhile;
}

/** The end of the last value that begins within the trial's bytes. */
function trialEnd({ view, length }: ByteWriter, from: number, width: number | undefined): number {
  if (width !== undefined) return Math.min(length, from + trialBytes);
  let at = from;
  while (at < length && at < from + trialBytes) at += 4 + view.getUint32(at, true);
  return at;
}
