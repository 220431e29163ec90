/**
 * `a.b` reaches the property `a.b` and the property `b` of `a`, both if a row has both, so that nothing personal is
 * missed. In a list a name reaches into each element.
 */

import type { PluginConfig } from '../../foundation/domain/plugin.ts';
import { RowError, spendEffort } from './effort.ts';
import {
  descend,
  type Edit,
  type Json,
  type JsonObject,
  listOf,
  mapList,
  objectOf,
} from './json.ts';
import { InvalidSetting, requireNames, type Row } from './transform.ts';

/** Item n: possible names after n parts, longest first: for `a.b.c` `[['a.b.c', 'a.b', 'a'], ['b.c', 'b'], ['c']]`. */
type Path = readonly (readonly string[])[];

const maxParts = 20;

/** Undefined removes the property. The same value changes nothing. */
export type Change = (value: Json) => Json | undefined;

export interface Properties {
  readonly names: readonly string[];
  read(row: Row): readonly Json[];
  update(row: Row, change: Change): Row;
}

export function chooseProperties(config: PluginConfig): Properties {
  return propertiesOf(requireNames(config, 'properties'), config.column ?? 'properties');
}

/** `*` for the column: the names are those of columns. */
export function propertiesOf(
  names: readonly string[],
  column: string,
  setting = 'properties',
): Properties {
  const paths = names.map((name) => parsePath(name, setting));
  if (column === '*') {
    return {
      names,
      read: (row) => {
        const checked = checkColumns(row, names);
        return paths.flatMap((path) => readPath(checked, path, 0));
      },
      update: (row, change) => updatePaths(checkColumns(row, names), paths, change),
    };
  }
  return {
    names,
    read: (row) => {
      const value = columnOf(row, column);
      return paths.flatMap((path) => readInside(value, path, 0));
    },
    update: (row, change) => {
      const before = columnOf(row, column);
      const after = updateInside(before, paths, change, 0);
      return after === before ? row : row.with([[column, after]]);
    },
  };
}

/** @throws RowError if the row has no such column */
export function columnOf(row: Row, column: string): Json {
  const value = row.get(column);
  if (value === undefined) throw new RowError(`The row has no column ${column}.`);
  return value;
}

export function editColumn(
  row: Row,
  column: string,
  edit: (holder: JsonObject) => JsonObject,
): Row {
  const before = objectOf(columnOf(row, column));
  if (before === null) return row;
  const after = edit(before);
  return after === before ? row : row.with([[column, after]]);
}

/** Every row has all columns: a name that none begins is a mistake, and must not protect nothing. */
function checkColumns(row: Row, names: readonly string[]): Row {
  for (const name of names) {
    if (row.get(name) === undefined && row.get(name.split('.', 1)[0] ?? '') === undefined) {
      throw new RowError(`The row has no column ${name}.`);
    }
  }
  return row;
}

function parsePath(name: string, setting: string): Path {
  const parts = name.split('.');
  if (parts.length > maxParts) {
    throw new InvalidSetting(setting, `Write names of at most ${maxParts} parts.`);
  }
  return parts.map((_, from) =>
    parts.slice(from).map((_, cutOff) => parts.slice(from, parts.length - cutOff).join('.')),
  );
}

function readPath(holder: JsonObject, path: Path, from: number): Json[] {
  const names = path[from] ?? [];
  spendEffort(names.length);
  return names.flatMap((name, cutOff) => {
    const value = holder.get(name);
    if (value === undefined) return [];
    return cutOff === 0 ? [value] : readInside(value, path, path.length - cutOff);
  });
}

function readInside(value: Json, path: Path, from: number, levels?: number): Json[] {
  const list = listOf(value);
  if (list) {
    const below = descend(levels);
    spendEffort(list.length);
    return list.flatMap((element) => readInside(element, path, from, below));
  }
  const object = objectOf(value);
  return object === null ? [] : readPath(object, path, from);
}

function updatePaths(
  holder: JsonObject,
  paths: readonly Path[],
  change: Change,
  from = 0,
): JsonObject {
  const edits: Edit[] = [];
  for (const path of paths) {
    const names = path[from] ?? [];
    spendEffort(names.length);
    for (let cutOff = 0; cutOff < names.length; cutOff += 1) {
      const name = names[cutOff] ?? '';
      const edited = edits.findLast(([known]) => known === name);
      const before = edited ? edited[1] : holder.get(name);
      if (before === undefined) continue;
      const next = path.length - cutOff;
      const after = cutOff === 0 ? change(before) : updateInside(before, [path], change, next);
      if (after === before) continue;
      edits.push([name, after]);
    }
  }
  return edits.length === 0 ? holder : holder.edit(edits);
}

function updateInside(
  value: Json,
  paths: readonly Path[],
  change: Change,
  from: number,
  levels?: number,
): Json {
  const list = listOf(value);
  if (list) {
    const below = descend(levels);
    spendEffort(list.length);
    return mapList(list, (element) => updateInside(element, paths, change, from, below)) ?? value;
  }
  const object = objectOf(value);
  if (!object) return value;
  const after = updatePaths(object, paths, change, from);
  return after === object ? value : after;
}
