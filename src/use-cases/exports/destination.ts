import type { StoredDestination } from '../../domain/batch-export.ts';
import type { SecretBox } from '../../security/secret-box.ts';
import type { ExportRules } from './rules.ts';

export type Config = Readonly<Record<string, unknown>>;

/** Splits a whole config into what is stored in the open and what is sealed. */
export function sealDestination(
  rules: ExportRules,
  secrets: SecretBox,
  exportId: string,
  type: string,
  config: Config,
): StoredDestination {
  const secretNames = new Set(rules.secretProperties(type));
  const entries = Object.entries(config);
  const sealed = entries.filter(([name, value]) => secretNames.has(name) && value !== null);
  return {
    type,
    config: Object.fromEntries(entries.filter(([name]) => !secretNames.has(name))),
    secrets: sealed.length === 0 ? null : secrets.seal(Object.fromEntries(sealed), exportId),
  };
}

/**
 * The whole config of a stored destination, its secrets in the clear. Never to leave the process. The
 * API needs it to test a destination, and to check a changed config: whether it is complete cannot be
 * told without what is sealed.
 */
export function openDestinationConfig(
  secrets: SecretBox,
  exportId: string,
  destination: StoredDestination,
): Config {
  if (destination.secrets === null) return destination.config;
  return { ...destination.config, ...secrets.open(destination.secrets, exportId) };
}

/** `change` laid over `current`, objects into objects. Null takes a property away. */
export function mergeConfig(current: Config, change: Config): Config {
  const merged: Record<string, unknown> = { ...current };
  for (const [name, value] of Object.entries(change)) {
    const before = merged[name];
    if (value === null) delete merged[name];
    else merged[name] = isPlain(before) && isPlain(value) ? mergeConfig(before, value) : value;
  }
  return merged;
}

function isPlain(value: unknown): value is Config {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
