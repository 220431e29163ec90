import { Refusal } from '../../domain/problem.ts';
import { malformed } from '../api-error.ts';

/** Deeper JSON than any body of ours, and shallow enough for any reader behind us. */
const maxDepth = 32;
/** More items than any list or object of ours: what is wrong with each of them is not looked at. */
const maxItems = 1_000;

interface Place {
  readonly value: unknown;
  readonly path: readonly string[];
}

/**
 * Refuses what JSON allows and PostgreSQL or JavaScript cannot hold: NUL and lone surrogates in
 * text, `__proto__` as a name, and nesting beyond 32 levels; and lists and objects of more than 1,000 items.
 *
 * @throws ApiError 400
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
    detail: 'Text holds a NUL or half a surrogate pair.',
    attr,
  });
}

const attrOf = (path: readonly string[]): string | null =>
  path.length === 0 ? null : path.join('__');
