import { Refusal } from '../../../foundation/domain/problem.ts';
import { malformed } from '../api-error.ts';
import { maxDepth, maxItems, tooManyItems } from './json-bounds.ts';

interface Place {
  readonly value: unknown;
  readonly path: readonly string[];
}

/**
 * Refuses JSON that PostgreSQL or JavaScript cannot store: NUL and lone surrogates in text, and
 * `__proto__` as a name. Also refuses more than 32 levels or 1,000 items of a list or object.
 *
 * @param within the path of the value in the body
 * @throws Refusal (400)
 */
export function refuseHostileText(root: unknown, within: readonly string[] = []): void {
  const places: Place[] = [{ value: root, path: within }];
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
  const attr = attrOf(path);
  throw new Refusal({
    code: 'invalid_input',
    detail: 'The text contains a NUL or half a surrogate pair. Remove it.',
    attr,
  });
}

const attrOf = (path: readonly string[]): string | null =>
  path.length === 0 ? null : path.join('__');
