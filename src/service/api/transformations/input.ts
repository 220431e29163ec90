import type { Static } from 'typebox';
import { withChanges } from '../../../foundation/domain/export-settings.ts';
import type { PluginField } from '../../../foundation/domain/plugin.ts';
import { invalid, type Problem, Refusal, refuseIfAny } from '../../../foundation/domain/problem.ts';
import type {
  CreateTransformationInput,
  Rearrangement,
  UpdateTransformationInput,
} from '../../use-cases/transformations/steps.ts';
import { refuseHostileJson, refuseHostileText } from '../validation/hostile-json.ts';
import type {
  CreateTransformationConfig,
  PatchTransformationConfig,
  PublishedField,
  Rearrange,
} from './schema.ts';

export function createInput(
  body: Static<typeof CreateTransformationConfig>,
): CreateTransformationInput {
  const { plugin, order } = body;
  const nothing = { config: {}, name: null, description: null, matchAction: null };
  const defaults = { plugin, order, enabled: false, deleted: false, ...nothing };
  return withChanges<CreateTransformationInput>(defaults, changeInput(body));
}

export function changeInput(
  body: Static<typeof PatchTransformationConfig>,
): UpdateTransformationInput {
  const { match_action: matchAction, config, name, description, ...others } = body;
  return {
    ...others,
    config: readConfig(config),
    name: name === '' ? null : name,
    description: description === '' ? null : description,
    matchAction,
  };
}

/** @throws Refusal (400) for a string that is not a JSON object, or contains what a body must not */
export function readConfig(
  config: string | Record<string, unknown> | undefined,
): Record<string, unknown> | undefined {
  if (typeof config !== 'string') return config;
  refuseHostileJson(Buffer.from(config), ['config']);
  const parsed = parseJson(config);
  refuseHostileText(parsed, ['config']);
  if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) {
    return parsed as Record<string, unknown>;
  }
  const detail = 'Must be an object, or the JSON of an object in a string.';
  throw new Refusal(invalid('config', detail));
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** @throws Refusal (400) if the body names no step or no order for it */
export function rearrangement(body: Static<typeof Rearrange>): Rearrangement {
  const { orders, plugin, order } = body;
  if (orders !== undefined) {
    const entries = Object.entries(orders);
    const problems = entries
      .filter(([id]) => !/^[1-9]\d{0,9}$/.test(id) || Number(id) > 2_147_483_647)
      .map(([id]): Problem => {
        const detail = 'This is not the id of a transformation config: use a positive number.';
        return { code: 'does_not_exist', detail, attr: `orders__${id}` };
      });
    refuseIfAny(problems);
    return { orders: new Map(entries.map(([id, place]) => [Number(id), place])) };
  }
  if (plugin !== undefined && order !== undefined) return { plugin, order };
  const attr = plugin === undefined ? 'orders' : 'order';
  throw new Refusal({ code: 'required', detail: 'Send orders, or plugin and order.', attr });
}

/** Reads the `config` of a plugin.json. @returns null for an entry without a key, a text for a form */
export function readFields(entries: readonly PublishedField[]): (PluginField | null)[] {
  return entries.map(({ key, name, type = 'string', choices, options, ...entry }) =>
    key === undefined
      ? null
      : {
          key,
          name: name || key,
          // A plugin that reads attachments is refused. For any other one it is a setting that is not used.
          type: type === 'attachment' ? 'string' : type,
          required: type !== 'attachment' && (entry.required ?? false),
          secret: entry.secret ?? false,
          default: textOf(entry.default),
          hint: entry.hint || null,
          choices: type === 'choice' ? (choices ?? options ?? []).map(String) : [],
        },
  );
}

function textOf(value: unknown): string | null {
  if (value === undefined || value === null || value === '') return null;
  return typeof value === 'string' ? value : JSON.stringify(value);
}
