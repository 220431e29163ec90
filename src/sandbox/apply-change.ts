import { type Json, JsonObject, type JsonText, listOf, objectOf } from '../transforms/json.ts';
import type { Change } from './realm/diff.ts';

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
  const members = new Map(object.members);
  for (const name of d) members.delete(name);
  for (const [name, change] of Object.entries(p)) {
    members.set(name, applyChange(members.get(name), change));
  }
  return new JsonObject(members);
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
