import { checkPluginConfig, type PluginConfig, withDefaults } from '../domain/plugin.ts';
import { readNumber } from './settings.ts';
import { type Apply, InvalidSetting, type Transform } from './transform.ts';

/** A step of a chain, ready to run. */
export interface Step {
  /** Of its config. */
  readonly id: number;
  /** Of its config or plugin, for logs and errors. */
  readonly name: string;
  readonly apply: Apply;
  /** What becomes of a row that it cannot handle: it goes on as it was, or leaves the chain. */
  readonly onError: 'keep' | 'reject';
  /** From 0 to 1, of the rows that reach the step. */
  readonly maxErrorShare: number;
}

/**
 * A step from its plugin and its config, with the secrets. A step that protects always rejects.
 *
 * @throws InvalidSetting also for a stored config that no longer fits its plugin
 */
export function compileStep(
  given: { readonly id: number; readonly name: string | null; readonly config: PluginConfig },
  transform: Transform,
): Step {
  const { configSchema } = transform;
  const [problem] = checkPluginConfig(configSchema, given.config);
  if (problem) throw new InvalidSetting(problem.attr ?? '', problem.detail);
  // A form sends what was left empty as an empty text.
  const filledIn = Object.entries(given.config).filter(([, value]) => value !== '');
  const config = withDefaults(configSchema, Object.fromEntries(filledIn));
  return {
    id: given.id,
    name: given.name ?? transform.name,
    apply: transform.compile(config),
    onError: transform.protects || config.on_error === 'reject' ? 'reject' : 'keep',
    maxErrorShare: readNumber(config, 'max_error_share', { from: 0, to: 1, whole: false }),
  };
}
