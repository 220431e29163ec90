import type { Plugin, PluginConfig, PluginField } from '../../foundation/domain/plugin.ts';
import type { Problem } from '../../foundation/domain/problem.ts';
import type { JsonObject } from './json.ts';

/** A row: its columns by name, each as JSON. Steps return new rows; they never change one. */
export type Row = JsonObject;

/**
 * Returns the row after one step, or null to drop it. A pure function of the row.
 *
 * @throws RowError if it cannot handle the row
 */
export type Apply = (row: Row) => Row | null;

/** A built-in plugin: what the catalogue shows of it, and what it does. */
export interface Transform extends Plugin {
  /** It hides personal data: a row that it cannot handle is rejected, never written as it is. */
  readonly protects: boolean;
  /**
   * @param config complete: checked against the schema, with its defaults and secrets
   * @throws InvalidSetting for a value that the schema cannot refuse
   */
  compile(config: PluginConfig): Apply;
}

/** Settings with values that the plugin cannot use. */
export class InvalidSettings extends Error {
  /** `attr` is the key of the setting. */
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(problems.map(({ attr, detail }) => `${attr}: ${detail}`).join(' '));
    this.name = 'InvalidSettings';
    this.problems = problems;
  }
}

/** A setting with a value that the plugin cannot use. */
export class InvalidSetting extends InvalidSettings {
  /** @param detail what is wrong and what to write instead */
  constructor(key: string, detail: string) {
    super([{ code: 'invalid_input', detail, attr: key }]);
  }
}

/**
 * Returns the results of the readers of settings, by name.
 *
 * @param known problems that the schema found: a reader of their settings adds none
 * @throws InvalidSettings with these, and with the problems of all readers
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

/** A built-in plugin from what is its own; the settings that every step has are added. */
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

/** One setting of a plugin; what is not given is optional text without a default. */
export function field(
  given: Partial<PluginField> & Pick<PluginField, 'key' | 'name'>,
): PluginField {
  return {
    type: 'string',
    required: false,
    secret: false,
    default: null,
    hint: null,
    choices: [],
    ...given,
  };
}

/** Settings of every step, whatever its plugin. A step that protects always rejects. */
export const stepFields: readonly PluginField[] = [
  field({
    key: 'on_error',
    name: 'Rows with errors',
    type: 'choice',
    default: 'keep',
    choices: ['keep', 'reject'],
    hint: 'keep: the row goes on as it was before this step. reject: only its key and the reason are kept.',
  }),
  field({
    key: 'max_error_share',
    name: 'Highest share of errors',
    default: '1.0',
    hint: 'From 0 to 1. The run fails if a greater share of the rows of this step have errors.',
  }),
];
