import { ownSteps } from '../../src/extensions/own-plugins/own-plugins.ts';
import type { PinnedChain } from '../../src/rows/pipeline/interval-job.ts';
import { findTransform } from '../../src/rows/transforms/index.ts';
import { defineOwnStep, type StepDefinition } from '../../src/rows/transforms/own-steps.ts';
import { compileStep } from '../../src/rows/transforms/step.ts';
import { plugin } from '../sandbox/inside.ts';

/**
 * Transformation chains by name. No step drops a row, so that as many rows are written as without a
 * chain.
 */
export const benchChains: Readonly<Record<string, () => readonly StepDefinition[]>> = {
  'three steps': () => [
    builtIn(1, 2, { events: '$feature_flag_called, $web_vitals' }),
    builtIn(2, 1, { properties: '$referrer' }),
    builtIn(3, 3, { properties: '$ip', salt: 'a salt of the benchmark' }),
  ],
  'own plugin': () => [
    defineOwnStep(ownSteps, {
      id: 1,
      name: 'adds two properties',
      source: plugin,
      config: { greeting: 'hello' },
      secrets: [],
    }),
  ],
};

/** Null for no name. */
export function openBenchChain(name: string): PinnedChain | null {
  const steps = benchChains[name]?.() ?? [];
  return steps.length === 0 ? null : { steps, recipe: [] };
}

function builtIn(id: number, pluginId: number, config: Readonly<Record<string, string>>) {
  const transform = findTransform(pluginId);
  if (!transform) throw new Error(`there is no plugin ${pluginId}`);
  return compileStep({ id, name: null, config }, transform);
}
