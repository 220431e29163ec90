import { createHash } from 'node:crypto';
import { SluiceError, StepFault } from '../../../foundation/domain/errors.ts';
import type { PluginConfig } from '../../../foundation/domain/plugin.ts';
import type { PinnedStep, RecipeStep } from '../../../foundation/domain/recipe.ts';
import {
  findPluginSources,
  findStepVersions,
  type StepVersion,
} from '../../../state/store/transformations/chains.ts';
import { findTransform } from '../../../rows/transforms/index.ts';
import { defineOwnStep, type StepDefinition } from '../../../rows/transforms/own-steps.ts';
import { compileStep } from '../../../rows/transforms/step.ts';
import { InvalidSetting, InvalidSettings } from '../../../rows/transforms/transform.ts';
import type { Context } from '../context.ts';
import { openPluginConfig } from './secrets.ts';

/** A chain, with all that its steps need, and what a recipe keeps of it. */
export interface OpenChain {
  readonly steps: readonly StepDefinition[];
  readonly recipe: readonly RecipeStep[];
}

/**
 * The steps that a run pinned; null if it has none.
 *
 * @throws StepFault if a step cannot run: then nothing is exported,
 *   since a row without its step may show what the step hides
 */
export async function openChain(
  context: Pick<Context, 'db' | 'secrets' | 'ownSteps'>,
  teamId: number,
  chain: readonly PinnedStep[],
): Promise<OpenChain | null> {
  if (chain.length === 0) return null;
  const versions = await findStepVersions(context.db, teamId, chain);
  const sources = await findPluginSources(context.db, chain);
  const steps: StepDefinition[] = [];
  const recipe: RecipeStep[] = [];
  for (const pinned of chain) {
    const { config, version, source } = pinned;
    const storedStep = versions.find((step) => step.id === config && step.version === version);
    try {
      if (!storedStep) throw new InvalidSetting('version', `version ${version} was deleted`);
      const text = source === undefined ? null : (sources.get(source) ?? missing(source));
      steps.push(openStep(context, storedStep, text));
      recipe.push({ ...pinned, digest: digestOf(storedStep, source) });
    } catch (error) {
      throw new StepFault('transformation.invalid', config, `step ${config}: ${why(error)}`, error);
    }
  }
  return { steps, recipe };
}

function why(error: unknown): string {
  if (error instanceof InvalidSettings) return error.message;
  const isSecret = error instanceof SluiceError && error.code === 'secrets.undecryptable';
  if (!isSecret) throw error;
  return 'its secrets cannot be decrypted';
}

function missing(source: string): never {
  throw new InvalidSetting('source', `the source ${source.slice(0, 12)} of its plugin was deleted`);
}

/** @param source of the plugin, if it is an organization's own */
function openStep(
  { secrets, ownSteps }: Pick<Context, 'secrets' | 'ownSteps'>,
  version: StepVersion,
  source: string | null,
): StepDefinition {
  const { id, plugin, pluginName, name } = version;
  const config = openPluginConfig(secrets, version);
  if (source !== null) {
    const hidden = secretsOf(version, config);
    const shownName = name ?? pluginName ?? `plugin ${plugin}`;
    return defineOwnStep(ownSteps, { id, name: shownName, source, config, secrets: hidden });
  }
  const transform = findTransform(plugin);
  if (!transform)
    throw new InvalidSetting(
      'plugin',
      `plugin ${plugin} is not installed, or its source is missing`,
    );
  return compileStep({ ...version, config }, transform);
}

/** The values that are stored encrypted. */
function secretsOf(stored: StepVersion, config: PluginConfig): readonly string[] {
  return Object.entries(config).flatMap(([key, value]) =>
    Object.hasOwn(stored.config, key) ? [] : [value],
  );
}

function digestOf({ plugin, config }: StepVersion, source: string | undefined): string {
  const settings = Object.entries(config).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256')
    .update(JSON.stringify(source === undefined ? [plugin, settings] : [plugin, settings, source]))
    .digest('hex');
}
