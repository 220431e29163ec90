import type { PluginField } from '../../foundation/domain/plugin.ts';
import type { Problem } from '../../foundation/domain/problem.ts';
import { SandboxError } from './limits.ts';
import { describeProblem, findSourceProblems } from './sandbox.ts';

/**
 * What is wrong with a plugin's source, each with its line if it has one: a mistake in its text, an import, an
 * export or a field of `meta` that plugins do not have here. None: the plugin can be installed. It
 * starts a sandbox, in which the text of the module runs, but no hook.
 *
 * @throws SandboxError with the fault `unavailable` if no sandbox can be started
 */
export async function inspectPlugin(source: string): Promise<Problem[]> {
  try {
    const found = await findSourceProblems(source);
    return found.map((problem) => fault('source', describeProblem(problem)));
  } catch (error) {
    if (!(error instanceof SandboxError) || error.fault === 'unavailable') throw error;
    return [fault('source', `The plugin cannot be loaded: ${error.message}`)];
  }
}

/** A config schema, or what is wrong with it. */
export type ReadSchema =
  | { readonly fields: readonly PluginField[] }
  | { readonly problems: Problem[] };

/**
 * Reads the `config` of a plugin.json as the community writes it. Entries without a key are text for
 * a form and are left out.
 */
export function readConfigSchema(config: unknown): ReadSchema {
  if (config === undefined || config === null) return { fields: [] };
  if (!Array.isArray(config)) {
    return { problems: [fault('config', 'Write a list of settings: [{"key": …, "name": …}].')] };
  }
  const read = config.filter(hasKey).map(readField);
  const problems = read.flatMap((found) => ('detail' in found ? [found] : []));
  const fields = read.flatMap((found) => ('detail' in found ? [] : [found]));
  const keys = fields.map(({ key }) => key);
  const twice = keys.find((key, index) => keys.indexOf(key) !== index);
  if (twice !== undefined) problems.push(fault(`config__${twice}`, 'The key is used twice.'));
  return problems.length > 0 ? { problems } : { fields };
}

type Entry = Readonly<Record<string, unknown>>;

function hasKey(entry: unknown): entry is Entry {
  return typeof entry === 'object' && entry !== null && 'key' in entry;
}

function readField(entry: Entry): PluginField | Problem {
  const { key, name, type = 'string', required, secret, hint, choices } = entry;
  if (typeof key !== 'string' || key === '') return fault('config', 'A key must be a text.');
  const refuse = (detail: string) => fault(`config__${key}`, detail);
  if (type !== 'string' && type !== 'choice' && type !== 'json') {
    return refuse(`The type ${String(type)} is not supported. Use string, choice or json.`);
  }
  const isChoice = type === 'choice';
  const options = Array.isArray(choices) ? choices.map(String) : [];
  if (isChoice && options.length === 0) return refuse('A choice needs choices, a list of texts.');
  const preset = entry.default;
  const text = typeof preset === 'string' ? preset : JSON.stringify(preset);
  const fallback = preset === undefined || preset === null || preset === '' ? null : (text ?? null);
  if (isChoice && fallback !== null && !options.includes(fallback)) {
    return refuse(`The default must be one of ${options.join(', ')}.`);
  }
  return {
    key,
    name: typeof name === 'string' && name !== '' ? name : key,
    type,
    required: required === true,
    secret: secret === true,
    default: fallback,
    hint: typeof hint === 'string' && hint !== '' ? hint : null,
    choices: isChoice ? options : [],
  };
}

function fault(attr: string, detail: string): Problem {
  return { code: 'invalid_input', detail, attr };
}
