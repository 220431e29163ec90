/** Unnamed parts are unchanged: the worker keeps their source text. */
export type Change =
  | { v: unknown }
  /** An object: changed and new members, removed members. */
  | { p: Record<string, Change>; d: string[] }
  /** A list: its length, changed and new elements. */
  | { l: number; p: Record<string, Change> };

const { getPrototypeOf, hasOwn, keys } = Object;
const { isArray } = Array;
const { parse, stringify } = JSON;
const objectPrototype = Object.prototype;
const arrayPrototype = Array.prototype;
const boxes = [String, Number, Boolean, BigInt];

/** Undefined if they are the same. Reads each value once: it may be a getter's. @param before plain data */
export function diff(before: unknown, after: unknown): Change | undefined {
  if (before === after) return undefined;
  if (typeof after !== 'object' || after === null) return { v: after };
  if (isOwnJson(after)) return diff(before, parse(stringify(after) ?? 'null'));
  if (typeof before !== 'object' || before === null) return { v: after };
  if (isArray(after)) return isArray(before) ? diffLists(before, after) : { v: after };
  if (isArray(before)) return { v: after };
  return diffObjects(before as Record<string, unknown>, after as Record<string, unknown>);
}

/** Dates and others say themselves how they are written; texts and numbers may be in an object. */
function isOwnJson(value: object): boolean {
  if (typeof (value as { toJSON?: unknown }).toJSON === 'function') return true;
  const prototype: unknown = getPrototypeOf(value);
  if (prototype === objectPrototype || prototype === arrayPrototype) return false;
  return boxes.some((box) => value instanceof box);
}

function diffObjects(
  before: Record<string, unknown>,
  after: Record<string, unknown>,
): Change | undefined {
  let changed: Record<string, Change> | undefined;
  let removed: string[] | undefined;
  let keptParts = 0;
  // By index: without the optimising compilers an iterator makes an object for each name.
  const given = keys(after);
  for (let at = 0; at < given.length; at += 1) {
    const name = given[at] as string;
    const value = after[name];
    // Most members. No prototype has such a value, so the member is the object's own.
    if (value === before[name] && isPlainScalar(value)) {
      keptParts += 1;
    } else if (isWritten(value)) {
      const isOld = hasOwn(before, name);
      if (isOld) keptParts += 1;
      const change = isOld ? diff(before[name], value) : { v: value };
      if (change) {
        changed ??= {};
        changed[name] = change;
      }
    } else if (hasOwn(before, name)) {
      keptParts += 1;
      removed ??= [];
      removed[removed.length] = name;
    }
  }
  const names = keys(before);
  if (keptParts < names.length) {
    for (let at = 0; at < names.length; at += 1) {
      const name = names[at] as string;
      if (hasOwn(after, name)) continue;
      removed ??= [];
      removed[removed.length] = name;
    }
  }
  return changed || removed ? { p: changed ?? {}, d: removed ?? [] } : undefined;
}

function diffLists(before: unknown[], after: unknown[]): Change | undefined {
  const { length } = after;
  const changed: Record<string, Change> = {};
  let isChanged = length !== before.length;
  for (let index = 0; index < length; index += 1) {
    const value = after[index];
    const written = isWritten(value) ? value : null;
    const change = index < before.length ? diff(before[index], written) : { v: written };
    if (!change) continue;
    changed[index] = change;
    isChanged = true;
  }
  return isChanged ? { l: length, p: changed } : undefined;
}

function isPlainScalar(value: unknown): boolean {
  return (
    typeof value === 'string' ||
    typeof value === 'number' ||
    value === null ||
    value === true ||
    value === false
  );
}

/** JSON leaves these out of an object. */
function isWritten(value: unknown): boolean {
  return value !== undefined && typeof value !== 'function' && typeof value !== 'symbol';
}

export function copy<Value>(value: Value): Value {
  if (isArray(value)) {
    const list = value.slice();
    for (let index = 0; index < list.length; index += 1) {
      const element: unknown = list[index];
      if (typeof element === 'object' && element !== null) list[index] = copy(element);
    }
    return list as Value;
  }
  const members = { ...value } as Record<string, unknown>;
  for (const name in members) {
    const member = members[name];
    if (typeof member === 'object' && member !== null) members[name] = copy(member);
  }
  return members as Value;
}
