import type { Plugin, PluginField, Step } from '../api-types.ts';
import { type ConfigDraft, configOf, type Field, type FieldKind, valuesOf } from './fields.ts';

export interface StepDraft extends ConfigDraft {
  /** Empty: the plugin's. */
  readonly name: string;
  readonly description: string;
  /** `yes`, `no`; empty: not decided yet. */
  readonly enabled: string;
}

/** The plugin of a step, as its form needs it. */
export type StepPlugin = Pick<Plugin, 'id' | 'name' | 'description' | 'config_schema'>;

/** The plugin of a stored step. Its name is empty if it is no longer installed. */
export function pluginOf({ plugin, details }: Step): StepPlugin {
  const { name, description } = details.plugin_info;
  return {
    id: plugin,
    name: typeof name === 'string' ? name : '',
    description: typeof description === 'string' ? description : null,
    config_schema: details.config_schema ?? [],
  };
}

export function stepDraftOf(plugin: StepPlugin, step: Step | null): StepDraft {
  const own = (text: string | null | undefined, inherited: string | null) =>
    text && text !== inherited ? text : '';
  return {
    name: own(step?.name, plugin.name),
    description: own(step?.description, plugin.description),
    enabled: step === null ? '' : step.enabled ? 'yes' : 'no',
    values: valuesOf(fieldsOfPlugin(plugin), step?.details.config ?? {}),
    cleared: new Set(),
  };
}

/** The inputs that a plugin's config schema describes. */
export function fieldsOfPlugin({ config_schema }: StepPlugin): readonly Field[] {
  return config_schema.map((field) => {
    const { key, name = key, required = false, hint, choices = [] } = field;
    const preset = field.default ?? null;
    const kind = kindOf(field);
    return {
      name: key,
      label: name,
      kind,
      required: required && preset === null,
      // Null sets a setting back to its default.
      nullable: kind !== 'choice' || (!required && preset === null),
      description: hint ?? '',
      default: preset,
      example: '',
      choices,
      minimum: null,
      maximum: null,
    };
  });
}

function kindOf({ type, secret }: PluginField): FieldKind {
  if (secret) return 'secret';
  if (type === 'choice') return 'choice';
  return type === 'json' ? 'json' : 'text';
}

/** The body of a request, without plugin and order of a new step. */
export function stepBodyOf(plugin: StepPlugin, draft: StepDraft, isNew: boolean) {
  const { name, description, enabled, values, cleared } = draft;
  const config = configOf(fieldsOfPlugin(plugin), values, { isNew, cleared });
  return {
    name: name.trim(),
    description: description.trim(),
    enabled: enabled === 'yes',
    config: { ...config },
  };
}

/** The step for the lab, as it is in the form. The lab does not know its stored secrets. */
export function trialStepOf(plugin: StepPlugin, draft: StepDraft) {
  const { config } = stepBodyOf(plugin, draft, true);
  return { plugin: plugin.id, name: draft.name.trim() || null, config };
}

/** The API's names of the form's fields. */
export function stepAttrs(plugin: StepPlugin): readonly string[] {
  return [
    'name',
    'description',
    'enabled',
    ...plugin.config_schema.map(({ key }) => stepAttr(key)),
  ];
}

export function stepAttr(key: string): string {
  return `config__${key}`;
}
