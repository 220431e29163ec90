import { Refusal } from '../../domain/problem.ts';
import { malformed } from '../api-error.ts';

/** More than any valid body has, and few enough for every JSON reader behind the API. */
const maxDepth = 32;
/** More than any valid list or object has: checking each item would cost too much. */
const maxItems = 1_000;

interface Place {
  readonly value: unknown;
  readonly path: readonly string[];
}

/**
 * Refuses JSON that PostgreSQL or JavaScript cannot store: NUL and lone surrogates in text, and
 * `__proto__` as a name. Also refuses more than 32 levels or 1,000 items of a list or object.
 *
 * @throws Refusal (400)
 */
export function refuseHostileText(root: unknown): void {
  const places: Place[] = [{ value: root, path: [] }];
  for (let place = places.pop(); place !== undefined; place = places.pop()) {
    const { value, path } = place;
    if (typeof value === 'string') refuseUnstorable(value, path);
    if (typeof value !== 'object' || value === null) continue;
    if (path.length >= maxDepth)
      throw malformed(`The body is nested deeper than ${maxDepth} levels.`);
    const count = Array.isArray(value) ? value.length : Object.keys(value).length;
    if (count > maxItems) {
      const detail = `Must have at most ${maxItems} items.`;
      throw new Refusal({ code: 'max_length', detail, attr: attrOf(path) });
    }
    for (const [name, inner] of Object.entries(value)) {
      if (name === '__proto__') throw malformed('The body has a field named __proto__.');
      refuseUnstorable(name, path);
      places.push({ value: inner, path: [...path, name] });
    }
  }
}

function refuseUnstorable(text: string, path: readonly string[]): void {
  if (!text.includes('\0') && !/\p{Surrogate}/u.test(text)) return;
  const attr = attrOf(path);
  throw new Refusal({
    code: 'invalid_input',
    detail: 'The text contains a NUL or half a surrogate pair. Remove it.',
    attr,
  });
}

const attrOf = (path: readonly string[]): string | null =>
  path.length === 0 ? null : path.join('__');
