import type { StoredDestination } from '../../../foundation/domain/batch-export.ts';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import type { Problem } from '../../../foundation/domain/problem.ts';
import { remedyOfStruck } from '../../../foundation/domain/struck.ts';
import type { SecretBox } from '../../../foundation/security/secret-box.ts';
import type { ExportRules } from './rules.ts';

/** Splits a complete config into plain values and encrypted secrets. */
export function sealDestination(
  rules: ExportRules,
  secrets: SecretBox,
  exportId: string,
  type: string,
  config: DestinationConfig,
): StoredDestination {
  const secretNames = new Set(rules.secretProperties(type));
  const entries = Object.entries(config);
  const sealed = entries.filter(([name, value]) => secretNames.has(name) && value !== null);
  const keyId = rules.keyIdProperty(type);
  const ends = sealed.map(([name, value]) => [name, name === keyId ? endOf(value) : null] as const);
  return {
    type,
    config: Object.fromEntries(entries.filter(([name]) => !secretNames.has(name))),
    secrets: sealed.length === 0 ? null : secrets.seal(Object.fromEntries(sealed), exportId),
    secretEnds: sealed.length === 0 ? null : Object.fromEntries(ends),
  };
}

/** The last four characters, if they are at most half of the id. */
const endOf = (keyId: unknown): string | null =>
  typeof keyId === 'string' && keyId.length >= 8 ? keyId.slice(-4) : null;

/**
 * The complete config of a stored destination, with its secrets in plain text: it must not leave the
 * process. A run, the test of a destination and the check of a changed config need it.
 */
export function openDestinationConfig(
  secrets: SecretBox,
  exportId: string,
  destination: StoredDestination,
): DestinationConfig {
  const config = withoutStruck(destination.config);
  if (destination.secrets === null) return config;
  return { ...config, ...secrets.open(destination.secrets, exportId) };
}

/** A setting that an earlier release stored must not be refused by each change of the export. */
function withoutStruck(config: DestinationConfig): DestinationConfig {
  const entries = Object.entries(config).filter(([name]) => remedyOfStruck(name) === undefined);
  return Object.fromEntries(entries);
}

/** A stored config as a change begins with it. */
export interface OpenedForChange {
  /** With its secrets, unless they are damaged. */
  readonly current: DestinationConfig;
  /** No key decrypts the stored secrets: the request must send them again. */
  readonly isDamaged: boolean;
}

export function openForChange(
  secrets: SecretBox,
  exportId: string,
  destination: StoredDestination,
): OpenedForChange {
  try {
    return { current: openDestinationConfig(secrets, exportId, destination), isDamaged: false };
  } catch (error) {
    if (!(error instanceof SluiceError) || error.code !== 'secrets.undecryptable') throw error;
    return { current: withoutStruck(destination.config), isDamaged: true };
  }
}

/** Which secrets a damaged box had is unknown, so a change must name every one: none is lost unseen. */
export function askForSecrets(
  rules: ExportRules,
  type: string,
  change: DestinationConfig,
): readonly Problem[] {
  return rules
    .secretProperties(type)
    .filter((name) => change[name] === undefined)
    .map((name) => ({
      code: 'required',
      detail: `The stored secrets cannot be decrypted. Send ${name} again, or null if there is none.`,
      attr: `destination__config__${name}`,
    }));
}

/** Merges `change` into `current`, nested objects too. Null removes a property. */
export function mergeConfig(
  current: DestinationConfig,
  change: DestinationConfig,
): DestinationConfig {
  const merged: Record<string, unknown> = { ...current };
  for (const [name, value] of Object.entries(change)) {
    const before = merged[name];
    if (value === null) delete merged[name];
    else merged[name] = isPlain(before) && isPlain(value) ? mergeConfig(before, value) : value;
  }
  return merged;
}

function isPlain(value: unknown): value is DestinationConfig {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
