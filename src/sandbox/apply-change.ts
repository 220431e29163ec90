import {
  type Edit,
  type Json,
  type JsonObject,
  type JsonText,
  listOf,
  objectOf,
} from '../transforms/json.ts';
import type { Change } from './realm/diff.ts';

const fewChanges = 32;

/**
 * A value after a plugin changed it. What the change does not name keeps its source text.
 *
 * @throws TypeError if the change is none, or does not fit the value
 */
export function applyChange(before: Json | undefined, change: Change): Json {
  if (typeof change !== 'object' || change === null) throw new TypeError('No change.');
  if ('v' in change) return jsonOf(change.v);
  return 'l' in change ? applyToList(before, change) : applyToObject(before, change);
}

function applyToObject(
  before: Json | undefined,
  { p, d }: Extract<Change, { d: string[] }>,
): JsonObject {
  const object = objectOf(before);
  if (!object) throw new TypeError('The change is one of an object.');
  const removed = new Set(d);
  const changes = Object.entries(p);
  // To find many members one by one would take long.
  const from = changes.length > fewChanges ? object.members : object;
  const changed = changes.map(
    ([name, change]): Edit => [
      name,
      applyChange(removed.has(name) ? undefined : from.get(name), change),
    ],
  );
  return object.edit([...d.map((name): Edit => [name, undefined]), ...changed]);
}

function applyToList(
  before: Json | undefined,
  { l, p }: Extract<Change, { l: number }>,
): readonly Json[] {
  const list = listOf(before);
  if (!list || !Number.isSafeInteger(l) || l < 0)
    throw new TypeError('The change is one of a list.');
  const kept = list.slice(0, l);
  const changed = new Map(Object.entries(p));
  if (l > list.length + changed.size) throw new TypeError('The list has holes.');
  return Array.from({ length: l }, (_, index) => {
    const change = changed.get(String(index));
    const element = change ? applyChange(kept[index], change) : kept[index];
    if (element === undefined) throw new TypeError('The list has holes.');
    return element;
  });
}

function jsonOf(value: unknown): Json {
  const text = (JSON.stringify(value) ?? 'null') as JsonText;
  return objectOf(text) ?? text;
}
