import { endOfString, QUOTE } from '../../../foundation/domain/json-bytes.ts';
import { cutText, oneLine } from '../../../foundation/domain/one-line.ts';
import { invalid, Refusal } from '../../../foundation/domain/problem.ts';
import { malformed } from '../errors.ts';

/** More levels than any valid body has, and few enough for every JSON reader behind the API. */
const maxDepth = 32;
/** More items than any valid list or object has: checking each would cost too much. */
const maxItems = 1_000;
/** The bound for a whole body, more than rows for a preview have. Parsing a value costs many times its bytes. */
const maxValues = 100_000;
/** A name longer than this is no field of ours. */
const shownCharacters = 400;

interface Container {
  readonly isList: boolean;
  items: number;
  name: string;
  names: Set<string> | null;
}

/**
 * Refuses JSON text that would cost more to parse than a valid body: more than 32 levels, 1,000 items of a
 * list or object, or 100,000 values. Also refuses what the parser would change without a word: a field that occurs twice, because it
 * keeps the last one only, and a number that it rounds. Reads no further than the first fault. Text that is not JSON may get through: the
 * parser refuses it.
 *
 * @throws Refusal (400), which names the field
 */
export function refuseHostileJson(bytes: Buffer, within: readonly string[] = []): void {
  const open: Container[] = [];
  let string: readonly [number, number] = [0, 0];
  let values = 0;
  const pathOf = (containers: readonly Container[]) => [
    ...within,
    ...containers.map(({ isList, items, name }) =>
      isList ? String(items) : cutText(name, shownCharacters),
    ),
  ];
  for (let at = 0; at < bytes.length; at += 1) {
    const top = open[open.length - 1];
    const byte = bytes[at] ?? 0;
    switch (byte) {
      case QUOTE: {
        const end = endOfString(bytes, at);
        string = [at, end];
        at = end - 1;
        break;
      }
      case 0x3a: // :
        if (!top) return;
        top.name = nameAt(bytes, string);
        top.names ??= new Set();
        if (top.names.has(top.name))
          throw refusal('This field occurs twice. Remove one.', pathOf(open));
        top.names.add(top.name);
        break;
      case 0x2c: // ,
        if (!top) return;
        top.items += 1;
        values += 1;
        if (top.items >= maxItems) throw tooManyItems(pathOf(open.slice(0, -1)));
        if (values >= maxValues)
          throw malformed(`The body has more than ${maxValues.toLocaleString('en')} values.`);
        break;
      case 0x5b: // [
      case 0x7b: // {
        if (open.length === maxDepth)
          throw malformed(`The body is nested deeper than ${maxDepth} levels.`);
        open.push({ isList: byte === 0x5b, items: 0, name: '', names: null });
        break;
      case 0x5d: // ]
      case 0x7d: // }
        open.pop();
        break;
      default: {
        if (byte !== minus && !isDigit(byte)) break;
        const end = endOfNumber(bytes, at);
        const number = bytes.toString('latin1', at, end);
        if (!isKept(number)) throw refusal(roundedNumber(number), pathOf(open));
        at = end - 1;
      }
    }
  }
}

const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39;

function endOfNumber(bytes: Buffer, start: number): number {
  let end = start + 1;
  for (let byte = bytes[end]; byte !== undefined; byte = bytes[end]) {
    if (!isDigit(byte) && !inNumbers.has(byte)) break;
    end += 1;
  }
  return end;
}

const minus = 0x2d;
const inNumbers: ReadonlySet<number> = new Set(Buffer.from('+-.eE'));

/** Any whole number of 15 digits is kept. 17 digits identify each other number that a double has. */
function isKept(number: string): boolean {
  if (number.length <= 15 && !/[eE]/.test(number)) return true;
  const value = Number(number);
  // The parser refuses what is no number.
  if (String(value) === number || Number.isNaN(value)) return true;
  const digits = number.replace(/[eE].*$|\D/g, '').replace(/^0+/, '');
  const isWhole = !/[.eE]/.test(number);
  return (
    Number.isFinite(value) && !isWhole && digits.length <= 17 && (value !== 0 || digits === '')
  );
}

const roundedNumber = (number: string): string =>
  `The number ${oneLine(number, 40)} has more digits than a JSON number keeps. Send it as text.`;

const refusal = (detail: string, path: readonly string[]) =>
  new Refusal(invalid(path.join('__') || null, detail));

function tooManyItems(path: readonly string[]): Refusal {
  const detail = `Must have at most ${maxItems} items.`;
  return new Refusal({ code: 'max_length', detail, attr: path.join('__') || null });
}

function nameAt(bytes: Buffer, [start, end]: readonly [number, number]): string {
  const text = bytes.toString('utf8', start, end);
  if (!text.includes('\\')) return text.slice(1, -1);
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}

/**
 * Refuses JSON that PostgreSQL or JavaScript cannot store: NUL and lone surrogates in text, and
 * `__proto__` as a name. Also refuses more than 32 levels or 1,000 items of a list or object.
 */
export function refuseHostileText(root: unknown, within: readonly string[] = []): void {
  const places: { value: unknown; path: readonly string[] }[] = [{ value: root, path: within }];
  for (let place = places.pop(); place !== undefined; place = places.pop()) {
    const { value, path } = place;
    if (typeof value === 'string') refuseUnstorable(value, path);
    if (typeof value !== 'object' || value === null) continue;
    if (path.length >= maxDepth)
      throw malformed(`The body is nested deeper than ${maxDepth} levels.`);
    const count = Array.isArray(value) ? value.length : Object.keys(value).length;
    if (count > maxItems) throw tooManyItems(path);
    for (const [name, inner] of Object.entries(value)) {
      if (name === '__proto__') throw malformed('The body has a field named __proto__.');
      refuseUnstorable(name, path);
      places.push({ value: inner, path: [...path, name] });
    }
  }
}

function refuseUnstorable(text: string, path: readonly string[]): void {
  if (!text.includes('\0') && !/\p{Surrogate}/u.test(text)) return;
  throw refusal('The text contains a NUL or half a surrogate pair. Remove it.', path);
}
