import type { PluginConfig, PluginField } from '../../domain/plugin.ts';
import type { SecretBox } from '../../security/secret-box.ts';

/** What is shown, and may be sent back, in the place of a secret that is kept. */
export const secretMask = '********';

const identityOf = (configId: number): string => `transformation-config:${configId}`;

/** A plugin's config, split into what is stored in the open and what is sealed. */
export function sealPluginConfig(
  secrets: SecretBox,
  schema: readonly PluginField[],
  configId: number,
  config: PluginConfig,
): { readonly config: PluginConfig; readonly secrets: Buffer | null } {
  const secretKeys = new Set(schema.filter(({ secret }) => secret).map(({ key }) => key));
  const entries = Object.entries(config);
  const sealed = entries.filter(([key]) => secretKeys.has(key));
  return {
    config: Object.fromEntries(entries.filter(([key]) => !secretKeys.has(key))),
    secrets:
      sealed.length === 0 ? null : secrets.seal(Object.fromEntries(sealed), identityOf(configId)),
  };
}

/** The whole config of a stored step, its secrets in the clear. Never to leave the process. */
export function openPluginConfig(
  secrets: SecretBox,
  stored: { readonly id: number; readonly config: PluginConfig; readonly secrets: Buffer | null },
): PluginConfig {
  if (stored.secrets === null) return stored.config;
  const opened = secrets.open(stored.secrets, identityOf(stored.id)) as Record<string, string>;
  return { ...stored.config, ...opened };
}
