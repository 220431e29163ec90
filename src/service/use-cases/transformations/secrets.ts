import type { PluginConfig, PluginField } from '../../../foundation/domain/plugin.ts';
import type { SecretBox } from '../../../foundation/security/secret-box.ts';

/** Shown in place of a secret. A request that sends it back keeps the secret. */
export const secretMask = '********';

const identityOf = (configId: number): string => `transformation-config:${configId}`;

/**
 * Splits a plugin's config into plain values and encrypted secrets.
 *
 * @param keptSealed keys whose values were encrypted before: they stay so, even if the plugin calls the
 *   setting plain by now
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
