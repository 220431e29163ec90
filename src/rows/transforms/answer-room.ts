import { exactJson } from '../../foundation/domain/exact-json.ts';
import { type JsonText, quote } from './json.ts';

/** Bytes of JSON that an answer shows at most: a chain may make any size of a small row. */
const answerBytes = 16 * 1024 ** 2;
/** A longer value shows its beginning only. */
const longestValue = 1024 ** 2;
/** A shorter value is always shown, so that a row is whole. */
const shortValue = 100;

export class AnswerRoom {
  #bytes = answerBytes;
  #hasCut = false;

  get isFull(): boolean {
    return this.#bytes <= 0;
  }

  /** Says whether something that was given to it is not, or not whole, in the answer. */
  get hasCut(): boolean {
    return this.#hasCut;
  }

  /** The value as an answer shows it: without loss for a client that has only doubles, or its beginning and size. */
  show(value: JsonText): string {
    const bytes = Buffer.byteLength(value);
    const fits = bytes <= shortValue || bytes <= Math.min(this.#bytes, longestValue);
    this.#bytes -= bytes;
    if (fits) return exactJson(value);
    this.#hasCut = true;
    return quote(`${value.slice(0, shortValue)}… (${bytes} bytes)`);
  }

  /** Takes room for one more part of the answer, such as a name. @returns whether there is any */
  takes(bytes = shortValue): boolean {
    if (this.isFull) this.#hasCut = true;
    else this.#bytes -= bytes;
    return !this.isFull;
  }
}
