import { type PluginField as Field, sampleJob } from '../../../foundation/domain/plugin.ts';
import { orNotFound } from '../../../foundation/domain/problem.ts';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import type { InstalledPlugin } from '../../../state/store/transformations/plugins.ts';
import {
  findTransformationConfig,
  type TransformationConfig as StoredStep,
} from '../../../state/store/transformations/transformation-configs.ts';
import { secretMask } from '../../use-cases/transformations/open-chain.ts';
import { findPlugins } from '../../use-cases/transformations/plugins.ts';
import type { Step } from '../../use-cases/transformations/steps.ts';
import { type Request, reachOf } from '../api.ts';
import type { Plugin, PluginField, TransformationConfig } from './schema.ts';

declare module 'fastify' {
  interface FastifyRequest {
    step: Step | undefined;
  }
}

/** A hook: the transformation config that the path names, or 404. Runs before the body is read. */
export async function loadTransformationConfig(request: Request): Promise<void> {
  const id = idOf(request);
  const { db } = request.context;
  const config = orNotFound(
    id === null ? null : await findTransformationConfig(db, teamOf(request), id),
  );
  [request.step] = await withPlugins(request, [config]);
}

/** The step that the path names. Only behind `loadTransformationConfig`. */
export function stepOf(request: Request): Step {
  if (!request.step) throw new Error('no hook has set request.step on this route');
  return request.step;
}

export function teamOf(request: Request): number {
  const { teamId } = reachOf(request);
  if (teamId === null) throw new Error('the path of this route names no project');
  return teamId;
}

/** The id of the path; null if it cannot be one. */
export function idOf(request: Request): number | null {
  const { id = '' } = request.params as { id?: string };
  const value = /^\d{1,10}$/.test(id) ? Number(id) : 0;
  return value > 0 && value <= 2_147_483_647 ? value : null;
}

export async function withPlugins(request: Request, steps: readonly StoredStep[]): Promise<Step[]> {
  const ids = [...new Set(steps.map(({ plugin }) => plugin))];
  const plugins = await findPlugins(
    request.context.db,
    reachOf(request).organizationId,
    ids,
    false,
  );
  return steps.map((step) => ({ step, plugin: plugins.get(step.plugin) ?? null }));
}

export function transformationConfigView(shown: Step): TransformationConfig {
  const info = shown.plugin && pluginInfo(shown.plugin);
  return view(shown, info, shown.plugin?.configSchema.map(fieldView) ?? []);
}

/** Steps of a list. What many of them have in common, their plugins, is beside them once. */
export function transformationConfigViews(steps: readonly Step[]) {
  const used = new Map<number, InstalledPlugin>();
  for (const { plugin } of steps) if (plugin) used.set(plugin.id, plugin);
  const results = steps.map((step) => {
    const { name, description, url } = step.plugin ?? {};
    return view(step, step.plugin && { name, description, url });
  });
  return {
    results,
    plugins: [...used.values()].map((plugin) => ({ id: plugin.id, ...pluginInfo(plugin) })),
  };
}

function view(
  { step, plugin }: Step,
  info: object | null,
  configSchema?: PluginField[],
): TransformationConfig {
  const config = maskedConfig({ step, plugin });
  const { secrets: _, version: __, deliveryRate, ...shown } = step;
  return {
    ...inSnakeCase(shown),
    config: JSON.stringify(config),
    plugin_info: info && JSON.stringify(info),
    delivery_rate_24h: deliveryRate,
    name: step.name ?? plugin?.name ?? null,
    description: step.description ?? plugin?.description ?? null,
    details: {
      config,
      ...(configSchema === undefined ? {} : { config_schema: configSchema }),
      plugin_info: { ...info },
      delivery_rate_24h: deliveryRate === null ? null : Number(deliveryRate),
    },
  };
}

/** Secrets are encrypted as one value. Without decrypting it, every secret setting shows the mask. */
function maskedConfig({ step, plugin }: Step): Record<string, string> {
  const masked: Record<string, string> = { ...step.config };
  if (step.secrets === null) return masked;
  for (const { key, secret } of plugin?.configSchema ?? []) if (secret) masked[key] = secretMask;
  return masked;
}

function pluginInfo(plugin: InstalledPlugin) {
  const { name, description, url, config_schema, jobs } = pluginView(plugin);
  return { name, description, url, config_schema, jobs };
}

export function pluginView(plugin: InstalledPlugin): Plugin {
  const { organizationId, configSchema, jobs, ...shown } = plugin;
  return {
    ...inSnakeCase(shown),
    config_schema: configSchema.map(fieldView),
    jobs: [sampleJob, ...jobs].map((job) => ({ ...job })),
    built_in: organizationId === null,
  };
}

function fieldView(field: Field): PluginField {
  return { ...field, choices: [...field.choices] };
}
