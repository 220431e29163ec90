/** A transformation consists of a plugin and a config: the values of the plugin's settings. */

import type { Problem, ProblemCode } from './problem.ts';

/** One setting, as the community's plugins describe theirs (`config` of plugin.json). */
export interface PluginField {
  readonly key: string;
  readonly name: string;
  /** `json`: text that must be JSON. */
  readonly type: 'string' | 'choice' | 'json';
  readonly required: boolean;
  readonly secret: boolean;
  readonly default: string | null;
  readonly hint: string | null;
  readonly choices: readonly string[];
}

export interface PluginJob {
  readonly type: string;
  readonly description: string;
}

export interface Plugin {
  readonly id: number;
  /** Null: built in, shared by all. */
  readonly organizationId: string | null;
  readonly name: string;
  readonly description: string | null;
  readonly url: string | null;
  readonly configSchema: readonly PluginField[];
  readonly jobs: readonly PluginJob[];
}

export const sampleJob: PluginJob = {
  type: 'sample',
  description: 'Runs the chain up to this step over a sample of the newest rows.',
};

export type PluginConfig = Readonly<Record<string, string>>;

/** Every problem of a whole config, its secrets included; `attr` is the key of a setting. */
export function checkPluginConfig(
  schema: readonly PluginField[],
  config: Readonly<Record<string, unknown>>,
): Problem[] {
  const keys = new Set(schema.map(({ key }) => key));
  const unknown = Object.keys(config)
    .filter((key) => !keys.has(key))
    .map((key) => fault(key, 'invalid_input', 'The plugin has no such setting. Remove it.'));
  return [...schema.flatMap((field) => checkField(field, config[field.key])), ...unknown];
}

/** The config with defaults for absent settings. */
export function withDefaults(schema: readonly PluginField[], config: PluginConfig): PluginConfig {
  const defaults = schema.flatMap(({ key, default: value }) =>
    value === null ? [] : [[key, value]],
  );
  return { ...Object.fromEntries(defaults), ...config };
}

function checkField(field: PluginField, value: unknown): Problem[] {
  const { key, type, required, choices } = field;
  if (value === undefined || value === '') {
    const missing = required && (value === '' || field.default === null);
    return missing ? [fault(key, 'required', 'This setting is required.')] : [];
  }
  if (typeof value !== 'string') return [fault(key, 'incorrect_type', 'Expected a string.')];
  if (type === 'choice' && !choices.includes(value)) {
    return [fault(key, 'invalid_choice', `Must be one of ${choices.join(', ')}.`)];
  }
  if (type !== 'json' || isJson(value)) return [];
  return [fault(key, 'invalid_input', 'Must be valid JSON.')];
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function fault(key: string, code: ProblemCode, detail: string): Problem {
  return { code, detail, attr: key };
}
