import {
  type Edit,
  type Json,
  type JsonObject,
  type JsonText,
  listOf,
  objectOf,
  quote,
} from '../../rows/transforms/json.ts';
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
  const names = Object.keys(p);
  // To find many members one by one would take long.
  const from = names.length > fewChanges ? object.members : object;
  const removed = d.length > fewChanges ? new Set(d) : null;
  const isRemoved = (name: string) => removed?.has(name) ?? d.includes(name);
  const edits = d.map((name): Edit => [name, undefined]);
  for (const name of names) {
    const change = p[name] as Change;
    // A new value needs no look at the old one.
    const isNew = typeof change === 'object' && change !== null && 'v' in change;
    const before = isNew || isRemoved(name) ? undefined : from.get(name);
    edits.push([name, applyChange(before, change)]);
  }
  return object.edit(edits);
}

function applyToList(
  before: Json | undefined,
  { l, p }: Extract<Change, { l: number }>,
): readonly Json[] {
  const list = listOf(before);
  if (!list || !Number.isSafeInteger(l) || l < 0)
    throw new TypeError('The change is one of a list.');
  const prefix = list.slice(0, l);
  const changed = new Map(Object.entries(p));
  if (l > list.length + changed.size) throw new TypeError('The list has holes.');
  return Array.from({ length: l }, (_, index) => {
    const change = changed.get(String(index));
    const element = change ? applyChange(prefix[index], change) : prefix[index];
    if (element === undefined) throw new TypeError('The list has holes.');
    return element;
  });
}

function jsonOf(value: unknown): Json {
  if (typeof value === 'string') return quote(value);
  const text = (JSON.stringify(value) ?? 'null') as JsonText;
  return objectOf(text) ?? text;
}
