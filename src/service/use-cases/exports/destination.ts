import { isDeepStrictEqual } from 'node:util';
import type { BatchExport, StoredDestination } from '../../../foundation/domain/batch-export.ts';
import { checkDecimalEntries } from '../../../foundation/domain/decimal-columns.ts';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import {
  type DestinationConfig,
  readFileSettings,
} from '../../../foundation/domain/file-settings.ts';
import { checkPartitionEntries } from '../../../foundation/domain/partition.ts';
import { invalid, type Problem, refuseIfAny } from '../../../foundation/domain/problem.ts';
import { remedyOfStruck } from '../../../foundation/domain/struck.ts';
import type { SecretBox } from '../../../foundation/security/secret-box.ts';
import type { Context } from '../context.ts';
import { checkEventFilters, checkFixed, type ExportRules } from './rules.ts';

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

/** The complete config of a stored destination, with its secrets in plain text: it must not leave the process. */
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

/** A destination as a change names it; its type cannot change. */
export interface ChangedDestination {
  readonly type?: string | undefined;
  readonly config?: DestinationConfig | undefined;
}

/** @returns null if no key decrypts the stored secrets */
function openUnlessDamaged(
  secrets: SecretBox,
  exportId: string,
  destination: StoredDestination,
): DestinationConfig | null {
  try {
    return openDestinationConfig(secrets, exportId, destination);
  } catch (error) {
    if (!(error instanceof SluiceError) || error.code !== 'secrets.undecryptable') throw error;
    return null;
  }
}

/** The complete config of an export after a change. If its secrets are damaged, `missing` asks for those that the change lacks. */
export function changeConfig(
  secrets: SecretBox,
  rules: ExportRules,
  { id, teamId, destination }: BatchExport,
  change: DestinationConfig,
) {
  const { type } = destination;
  const opened = openUnlessDamaged(secrets, id, destination);
  const current = opened ?? withoutStruck(destination.config);
  // Which secrets a damaged box had is unknown, so a change must name every one: none is lost unseen.
  const lost = opened ? [] : rules.secretProperties(type);
  const merged = rules.encloseConfig(type, mergeConfig(current, change), teamId);
  return {
    isDamaged: opened === null,
    current,
    merged,
    checked: rules.checkDestination(type, merged),
    missing: askForSecrets(
      lost.filter((name) => change[name] === undefined),
      (name) =>
        `The stored secrets cannot be decrypted. Send ${name} again, or null if there is none.`,
    ),
  };
}

const askForSecrets = (names: readonly string[], detailOf: (name: string) => string): Problem[] =>
  names.map((name) => {
    return { code: 'required', detail: detailOf(name), attr: `destination__config__${name}` };
  });

/** Merges `change` into `current`, nested objects too. Null removes a property. */
function mergeConfig(current: DestinationConfig, change: DestinationConfig): DestinationConfig {
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

/**
 * The complete config of a destination that is not stored, as a new export would have it.
 *
 * @param config with its secrets in plain text, as in the result: it must not leave the process
 */
export function readNewDestination(
  rules: ExportRules,
  teamId: number,
  type: string,
  config: DestinationConfig,
): DestinationConfig {
  const own = rules.encloseConfig(type, config, teamId);
  const checked = rules.checkDestination(type, own);
  refuseIfAny(checked.problems);
  return checked.config;
}

/**
 * The complete config of an export as a change would make it, with its secrets. Stored secrets are used only
 * at the place that they were entered for: if anything but file settings differs, the request must have each.
 * Otherwise a key could send what it cannot read to an address of its own choice, and leave no trace.
 */
export function readChangedDestination(
  { secrets }: Pick<Context, 'secrets'>,
  rules: ExportRules,
  before: BatchExport,
  destination: ChangedDestination,
): DestinationConfig {
  const { type } = before.destination;
  refuseIfAny(checkFixed('destination__type', type, destination.type));
  const { config: change = {} } = destination;
  const { current, checked, missing } = changeConfig(secrets, rules, before, change);
  refuseIfAny(missing);
  const { config, problems } = checked;
  // A stored config lacks the defaults of properties that later releases added.
  const whole = rules.checkDestination(type, current).config;
  const secretNames = rules.secretProperties(type);
  const places = rules.ownProperties(type).filter((name) => !secretNames.includes(name));
  const isElsewhere = places.some((name) => !isDeepStrictEqual(whole[name], config[name]));
  const stored = secretNames.filter(
    (name) => change[name] === undefined && (current[name] ?? null) !== null,
  );
  const again = askForSecrets(
    isElsewhere ? stored : [],
    (name) =>
      `Send ${name} again: Sluice uses the stored value only with the settings that were saved with it.`,
  );
  refuseIfAny([...again, ...problems]);
  return config;
}

/**
 * Of a config, the event filters and the columns that it names count.
 *
 * @throws Refusal if the query or the event filters are not possible for the model, or if an entry of
 * decimal_columns or partition_by is not
 */
export function refuseRows(
  rules: ExportRules,
  { model, dslQuery, transformations }: Pick<BatchExport, 'model' | 'dslQuery' | 'transformations'>,
  config: DestinationConfig,
): void {
  const query = dslQuery === null ? null : rules.checkQuery(dslQuery, model, transformations);
  refuseIfAny([
    ...(query?.ok === false ? query.problems : []),
    ...checkEventFilters(rules, model, config),
    ...checkDecimalEntries(config.decimal_columns, 'destination__config__decimal_columns'),
    ...checkPartitionEntries(readFileSettings(config).partitionBy).map((detail) =>
      invalid('destination__config__partition_by', detail),
    ),
  ]);
}
