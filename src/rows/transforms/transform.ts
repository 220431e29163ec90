import type { Plugin, PluginConfig, PluginField } from '../../foundation/domain/plugin.ts';
import type { Problem } from '../../foundation/domain/problem.ts';
import { type Json, JsonObject, listOf, parseJson, stringOf } from './json.ts';

/** Its columns by name. Steps return new rows; they never change one. */
export type Row = JsonObject;

/** Null drops the row. A pure function. @throws RowError if it cannot handle the row */
export type Apply = (row: Row) => Row | null;

export interface Transform extends Plugin {
  /** It hides personal data: a row that it cannot handle is rejected, never written as it is. */
  readonly protects: boolean;
  /** @param config with its defaults and secrets @throws InvalidSetting for a value that the schema cannot refuse */
  compile(config: PluginConfig): Apply;
}

export class InvalidSettings extends Error {
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(problems.map(({ attr, detail }) => `${attr}: ${detail}`).join(' '));
    this.name = 'InvalidSettings';
    this.problems = problems;
  }
}

export class InvalidSetting extends InvalidSettings {
  constructor(key: string, detail: string) {
    super([{ code: 'invalid_input', detail, attr: key }]);
  }
}

/**
 * By name. @param known problems that the schema found: a reader of their settings adds none @throws InvalidSettings
 * with these, and with the problems of all readers
 */
export function readAll<Values extends object>(
  readers: { readonly [Name in keyof Values]: () => Values[Name] },
  known: readonly Problem[] = [],
): Values {
  const problems = new Map(known.map((problem) => [problem.attr, problem]));
  const values: Partial<Values> = {};
  for (const name of Object.keys(readers) as (keyof Values)[]) {
    try {
      values[name] = readers[name]();
    } catch (error) {
      if (!(error instanceof InvalidSettings)) throw error;
      for (const problem of error.problems) {
        if (!problems.has(problem.attr)) problems.set(problem.attr, problem);
      }
    }
  }
  if (problems.size > 0) throw new InvalidSettings([...problems.values()]);
  return values as Values;
}

type Given = Pick<Transform, 'id' | 'name' | 'description' | 'protects' | 'compile'> & {
  readonly fields: readonly PluginField[];
};

export function defineTransform({ fields, ...given }: Given): Transform {
  return {
    ...given,
    organizationId: null,
    url: null,
    jobs: [],
    configSchema: [
      ...fields,
      ...stepFields.filter(({ key }) => !given.protects || key !== 'on_error'),
    ],
  };
}

/** By default optional text without a default value. */
export function field(key: string, name: string, given: Partial<PluginField> = {}): PluginField {
  const usual = { type: 'string', required: false, secret: false, default: null } as const;
  return { key, name, ...usual, hint: null, choices: [], ...given };
}

export function choiceField(
  key: string,
  name: string,
  choices: readonly string[],
  hint: string | null = null,
): PluginField {
  return field(key, name, { type: 'choice', default: choices[0] ?? null, choices, hint });
}

export const jsonField = (key: string, name: string, hint: string): PluginField =>
  field(key, name, { type: 'json', required: true, hint });

/** A step that protects always rejects. */
export const stepFields: readonly PluginField[] = [
  choiceField(
    'on_error',
    'Rows with errors',
    ['keep', 'reject'],
    'keep: the row goes on as it was before this step. reject: only its key and the reason are kept.',
  ),
  field('max_error_share', 'Highest share of errors', {
    default: '1.0',
    hint: 'From 0 to 1. The run fails if a greater share of the rows of this step have errors.',
  }),
];

export const propertiesField: PluginField = field('properties', 'Properties', {
  required: true,
  hint: 'Names, comma separated.',
});

export const columnField: PluginField = field('column', 'Column', {
  default: 'properties',
  hint: 'The JSON column that holds the properties.',
});

/** For plugins that can also change the columns of a row. */
export const anyColumnField: PluginField = {
  ...columnField,
  hint: 'The JSON column that holds the properties. Write * to name columns as if they were properties.',
};

export const eventColumnField: PluginField = field('event_column', 'Column of the event', {
  default: 'event',
});

/** Names, comma separated, or a JSON list of names if one of them holds a comma. */
export function readNames(config: PluginConfig, key: string): readonly string[] {
  const text = (config[key] ?? '').trim();
  const names = text.startsWith('[') ? readNameList(text, key) : text.split(',');
  return [...new Set(names.map((name) => name.trim()).filter((name) => name !== ''))];
}

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
