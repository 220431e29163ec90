import { Refusal } from '../../../foundation/domain/problem.ts';
import { malformed } from '../api-error.ts';

/** More levels than any valid body has, and few enough for every JSON reader behind the API. */
export const maxDepth = 32;
/** More items than any valid list or object has: checking each would cost too much. */
export const maxItems = 1_000;
/** The bound for a whole body, more than rows for the lab have. Parsing a value costs many times its bytes. */
const maxValues = 100_000;

const quote = 0x22;
const backslash = 0x5c;

/** A list or object that is open at this point of the scan. */
interface Container {
  readonly isList: boolean;
  items: number;
  /** Where the name of the current field begins and ends in the text. */
  name: readonly [number, number] | null;
}

/**
 * Refuses JSON text that would cost more to parse than a valid body: more than 32 levels, 1,000 items of a
 * list or object, or 100,000 values. Reads no further than the first excess. Text that is not JSON may get
 * through: the parser refuses it.
 *
 * @throws Refusal (400), which names the field
 */
export function refuseExcessiveJson(bytes: Buffer): void {
  const open: Container[] = [];
  let string: readonly [number, number] = [0, 0];
  let values = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const top = open[open.length - 1];
    switch (bytes[at]) {
      case quote: {
        const end = endOfString(bytes, at);
        string = [at, end];
        at = end - 1;
        break;
      }
      case 0x3a: // :
        if (top) top.name = string;
        break;
      case 0x2c: // ,
        if (!top) return;
        top.items += 1;
        values += 1;
        if (top.items >= maxItems) throw tooMany(bytes, open);
        if (values >= maxValues)
          throw malformed(`The body has more than ${maxValues.toLocaleString('en')} values.`);
        break;
      case 0x5b: // [
      case 0x7b: // {
        if (open.length === maxDepth)
          throw malformed(`The body is nested deeper than ${maxDepth} levels.`);
        open.push({ isList: bytes[at] === 0x5b, items: 0, name: null });
        break;
      case 0x5d: // ]
      case 0x7d: // }
        open.pop();
        break;
    }
  }
}

/** @returns the position after the closing quote, or the end of the text */
function endOfString(bytes: Buffer, start: number): number {
  for (let from = start + 1; ; ) {
    const end = bytes.indexOf(quote, from);
    if (end === -1) return bytes.length;
    let escapes = 0;
    while (bytes[end - 1 - escapes] === backslash) escapes += 1;
    if (escapes % 2 === 0) return end + 1;
    from = end + 1;
  }
}

function tooMany(bytes: Buffer, open: readonly Container[]): Refusal {
  const path = open.slice(0, -1).map(({ isList, items, name }) => {
    return isList ? String(items) : nameAt(bytes, name);
  });
  return tooManyItems(path);
}

/** A list or object at `path` has more than 1,000 items. */
export function tooManyItems(path: readonly string[]): Refusal {
  const attr = path.length === 0 ? null : path.join('__');
  return new Refusal({
    code: 'max_length',
    detail: `Must have at most ${maxItems} items.`,
    attr,
  });
}

/** A name longer than this is no field of ours. */
const shownBytes = 400;

function nameAt(bytes: Buffer, name: Container['name']): string {
  const [start, end] = name ?? [0, 0];
  const text = bytes.subarray(start, Math.min(end, start + shownBytes)).toString();
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}
