import { createHash } from 'node:crypto';
import { StepFault } from '../../domain/errors.ts';
import type { PinnedStep, RecipeStep } from '../../domain/recipe.ts';
import { findStepVersions, type StepVersion } from '../../store/chains.ts';
import { findTransform } from '../../transforms/index.ts';
import { compileStep, type Step } from '../../transforms/step.ts';
import { InvalidSetting } from '../../transforms/transform.ts';
import type { Context } from '../context.ts';
import { openPluginConfig } from './secrets.ts';

/** A chain, ready to run, and what a recipe keeps of it. */
export interface OpenChain {
  readonly steps: readonly Step[];
  readonly recipe: readonly RecipeStep[];
}

/**
 * The steps that a run pinned, ready to run; null if it has none.
 *
 * @throws StepFault if a step cannot run: then nothing is exported,
 *   since a row without its step may show what the step hides
 */
export async function openChain(
  context: Pick<Context, 'db' | 'secrets'>,
  teamId: number,
  chain: readonly PinnedStep[],
): Promise<OpenChain | null> {
  if (chain.length === 0) return null;
  const versions = await findStepVersions(context.db, teamId, chain);
  const steps: Step[] = [];
  const recipe: RecipeStep[] = [];
  for (const { config, version } of chain) {
    const found = versions.find((step) => step.id === config && step.version === version);
    try {
      if (!found) throw new InvalidSetting('version', `version ${version} was deleted`);
      steps.push(openStep(context, found));
      recipe.push({ config, version, digest: digestOf(found) });
    } catch (error) {
      const why =
        error instanceof InvalidSetting ? error.message : 'its secrets cannot be decrypted';
      throw new StepFault('transformation.invalid', config, `step ${config}: ${why}`, error);
    }
  }
  return { steps, recipe };
}

function openStep({ secrets }: Pick<Context, 'secrets'>, version: StepVersion): Step {
  const transform = findTransform(version.plugin);
  if (!transform) {
    throw new InvalidSetting(
      'plugin',
      `plugin ${version.plugin} is not built in, so it cannot run`,
    );
  }
  return compileStep({ ...version, config: openPluginConfig(secrets, version) }, transform);
}

function digestOf({ plugin, config }: StepVersion): string {
  const settings = Object.entries(config).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256')
    .update(JSON.stringify([plugin, settings]))
    .digest('hex');
}
