import type { PluginConfig, PluginField } from '../../foundation/domain/plugin.ts';
import { type Json, JsonObject, listOf, parseJson, stringOf } from './json.ts';
import { field, InvalidSetting } from './transform.ts';

/** Names of properties. */
export const propertiesField: PluginField = field({
  key: 'properties',
  name: 'Properties',
  required: true,
  hint: 'Names, comma separated.',
});

/** The column that `properties` are in. */
export const columnField: PluginField = field({
  key: 'column',
  name: 'Column',
  default: 'properties',
  hint: 'The JSON column that holds the properties.',
});

/** The column of properties, for plugins that can also change the columns of a row. */
export const anyColumnField: PluginField = {
  ...columnField,
  hint: 'The JSON column that holds the properties. Write * to name columns as if they were properties.',
};

/** The column that holds the name of the event. */
export const eventColumnField: PluginField = field({
  key: 'event_column',
  name: 'Column of the event',
  default: 'event',
});

/** Names, comma separated, or a JSON list of names if one of them holds a comma. */
export function readNames(config: PluginConfig, key: string): readonly string[] {
  const text = (config[key] ?? '').trim();
  const names = text.startsWith('[') ? readNameList(text, key) : text.split(',');
  return [...new Set(names.map((name) => name.trim()).filter((name) => name !== ''))];
}

/** Names of properties, at least one. */
/** Names in one setting: the time for a row grows with them. */
const maxNames = 500;

export function requireNames(config: PluginConfig, key: string): readonly string[] {
  const names = readNames(config, key);
  if (names.length === 0) throw new InvalidSetting(key, 'Write at least one name.');
  if (names.length > maxNames) {
    throw new InvalidSetting(key, `Write at most ${maxNames} names, or use more steps.`);
  }
  return names;
}

function readNameList(text: string, key: string): string[] {
  const detail = 'Write names, comma separated, or a JSON list of strings.';
  const list = listOf(readJson(text, key, detail)) ?? [];
  return list.map((element) => {
    const name = stringOf(element);
    if (name === null) throw new InvalidSetting(key, detail);
    return name;
  });
}

/** A JSON object: its members in order. */
export function readMembers(config: PluginConfig, key: string): ReadonlyMap<string, Json> {
  const detail = 'Write a JSON object: {"name": …}.';
  const value = readJson(config[key] ?? '', key, detail);
  if (!value.startsWith('{')) throw new InvalidSetting(key, detail);
  const { members } = new JsonObject(value);
  if (members.size > maxNames) {
    throw new InvalidSetting(key, `Write at most ${maxNames} names, or use more steps.`);
  }
  return members;
}

function readJson(text: string, key: string, detail: string) {
  try {
    return parseJson(text);
  } catch {
    throw new InvalidSetting(key, detail);
  }
}

/** A number within bounds, both included. */
export function readNumber(
  config: PluginConfig,
  key: string,
  { from, to, whole }: { readonly from: number; readonly to: number; readonly whole: boolean },
): number {
  const text = (config[key] ?? '').trim();
  const value = Number(text);
  const isFine = /^\d+(\.\d+)?$/.test(text) && value >= from && value <= to;
  if (!isFine || (whole && !Number.isInteger(value))) {
    const detail = `Write a ${whole ? 'whole number' : 'number'} from ${from} to ${to}.`;
    throw new InvalidSetting(key, detail);
  }
  return value;
}
