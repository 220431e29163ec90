import { type PluginField as Field, sampleJob } from '../../../foundation/domain/plugin.ts';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import type { InstalledPlugin } from '../../../state/store/transformations/plugins.ts';
import type { Step } from '../../use-cases/transformations/create-config.ts';
import { secretMask } from '../../use-cases/transformations/secrets.ts';
import type { Plugin, PluginField, TransformationConfig } from './schema.ts';

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
