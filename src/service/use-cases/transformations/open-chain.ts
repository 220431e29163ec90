import { createHash } from 'node:crypto';
import { SluiceError, StepFault } from '../../../foundation/domain/errors.ts';
import type { PluginConfig, PluginField } from '../../../foundation/domain/plugin.ts';
import type { PinnedStep, RecipeStep } from '../../../foundation/domain/recipe.ts';
import type { SecretBox } from '../../../foundation/security/secret-box.ts';
import { findTransform } from '../../../rows/transforms/index.ts';
import { defineOwnStep, type StepDefinition } from '../../../rows/transforms/own-steps.ts';
import { compileStep } from '../../../rows/transforms/step.ts';
import { InvalidSetting, InvalidSettings } from '../../../rows/transforms/transform.ts';
import {
  findPluginSources,
  findStepVersions,
  type StepVersion,
} from '../../../state/store/transformations/chains.ts';
import type { Context } from '../context.ts';

/** Shown in place of a secret. A request that sends it back keeps the secret. */
export const secretMask = '********';

const identityOf = (configId: number): string => `transformation-config:${configId}`;

/**
 * Splits a plugin's config into plain values and encrypted secrets.
 *
 * @param keptSealed keys whose values were encrypted before: they stay so, even if the plugin calls the
 * setting plain by now
 */
export function sealPluginConfig(
  secrets: SecretBox,
  schema: readonly PluginField[],
  configId: number,
  config: PluginConfig,
  keptSealed: readonly string[] = [],
): { readonly config: PluginConfig; readonly secrets: Buffer | null } {
  const secretKeys = new Set([
    ...schema.filter(({ secret }) => secret).map(({ key }) => key),
    ...keptSealed,
  ]);
  const entries = Object.entries(config);
  const sealed = entries.filter(([key]) => secretKeys.has(key));
  return {
    config: Object.fromEntries(entries.filter(([key]) => !secretKeys.has(key))),
    secrets:
      sealed.length === 0 ? null : secrets.seal(Object.fromEntries(sealed), identityOf(configId)),
  };
}

/** The complete config of a stored step, with its secrets in plain text: it must not leave the process. */
export function openPluginConfig(
  secrets: SecretBox,
  stored: { readonly id: number; readonly config: PluginConfig; readonly secrets: Buffer | null },
): PluginConfig {
  if (stored.secrets === null) return stored.config;
  const opened = secrets.open(stored.secrets, identityOf(stored.id)) as Record<string, string>;
  return { ...stored.config, ...opened };
}

/** @throws StepFault if a step cannot run: a row without its step may show what the step hides */
export async function openChain(
  context: Pick<Context, 'db' | 'secrets' | 'ownSteps'>,
  teamId: number,
  chain: readonly PinnedStep[],
) {
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
      const text = source === undefined ? null : sources.get(source);
      if (text === undefined) {
        const detail = `the source ${source?.slice(0, 12)} of its plugin was deleted`;
        throw new InvalidSetting('source', detail);
      }
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

function openStep(
  { secrets, ownSteps }: Pick<Context, 'secrets' | 'ownSteps'>,
  version: StepVersion,
  source: string | null,
): StepDefinition {
  const { id, plugin, pluginName, name } = version;
  const config = openPluginConfig(secrets, version);
  if (source !== null) {
    const hidden = Object.entries(config).filter(([key]) => !Object.hasOwn(version.config, key));
    const hiddenValues = hidden.map(([, value]) => value);
    const shownName = name ?? pluginName ?? `plugin ${plugin}`;
    return defineOwnStep(ownSteps, { id, name: shownName, source, config, secrets: hiddenValues });
  }
  const transform = findTransform(plugin);
  if (transform) return compileStep({ ...version, config }, transform);
  const detail = `plugin ${plugin} is not installed, or its source is missing`;
  throw new InvalidSetting('plugin', detail);
}

function digestOf({ plugin, config }: StepVersion, source: string | undefined): string {
  const settings = Object.entries(config).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256')
    .update(JSON.stringify(source === undefined ? [plugin, settings] : [plugin, settings, source]))
    .digest('hex');
}
