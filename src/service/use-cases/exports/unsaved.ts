import { isDeepStrictEqual } from 'node:util';
import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { checkDecimalEntries } from '../../../foundation/domain/decimal-columns.ts';
import {
  type DestinationConfig,
  readFileSettings,
} from '../../../foundation/domain/file-settings.ts';
import { checkPartitionEntries } from '../../../foundation/domain/partition.ts';
import { type Problem, refuseIfAny } from '../../../foundation/domain/problem.ts';
import type { Context } from '../context.ts';
import { askForSecrets, mergeConfig, openForChange } from './destination.ts';
import { checkEventFilters, type ExportRules } from './rules.ts';
import { checkFixed, type UpdateExportInput } from './update-export.ts';

/**
 * The complete config of a destination that is not stored, as a new export would have it.
 *
 * @param config with its secrets in plain text, as in the result: it must not leave the process
 * @throws Refusal with every problem
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
 *
 * @throws Refusal with every problem
 */
export function readChangedDestination(
  { secrets }: Pick<Context, 'secrets'>,
  rules: ExportRules,
  before: BatchExport,
  destination: NonNullable<UpdateExportInput['destination']>,
): DestinationConfig {
  const { type } = before.destination;
  refuseIfAny(checkFixed('destination__type', type, destination.type));
  const { config: change = {} } = destination;
  const { current, isDamaged } = openForChange(secrets, before.id, before.destination);
  if (isDamaged) refuseIfAny(askForSecrets(rules, type, change));
  const merged = rules.encloseConfig(type, mergeConfig(current, change), before.teamId);
  const { config, problems } = rules.checkDestination(type, merged);
  const again = hasOtherPlace(rules, type, current, config)
    ? askForSecretsAgain(rules, type, current, change)
    : [];
  refuseIfAny([...again, ...problems]);
  return config;
}

/** Says whether two configs differ in more than file settings and secrets. */
function hasOtherPlace(
  rules: ExportRules,
  type: string,
  current: DestinationConfig,
  config: DestinationConfig,
): boolean {
  const secret = new Set(rules.secretProperties(type));
  // A stored config lacks the defaults of properties that later releases added.
  const before = rules.checkDestination(type, current).config;
  return rules
    .ownProperties(type)
    .some((name) => !secret.has(name) && !isDeepStrictEqual(before[name], config[name]));
}

function askForSecretsAgain(
  rules: ExportRules,
  type: string,
  current: DestinationConfig,
  change: DestinationConfig,
): readonly Problem[] {
  return rules
    .secretProperties(type)
    .filter((name) => (current[name] ?? null) !== null && change[name] === undefined)
    .map((name) => ({
      code: 'required',
      detail: `Send ${name} again: Sluice uses the stored value only with the settings that were saved with it.`,
      attr: `destination__config__${name}`,
    }));
}

/** The settings of an export that decide its rows. */
interface Rows {
  readonly model: string;
  readonly dslQuery: string | null;
  readonly transformations: boolean;
  /** Its event filters count. */
  readonly config: DestinationConfig;
}

/**
 * @throws Refusal if the query or the event filters are not possible for the model, or if an entry of
 *   decimal_columns or partition_by is not
 */
export function refuseRows(
  rules: ExportRules,
  { model, dslQuery, transformations, config }: Rows,
): void {
  const query = dslQuery === null ? null : rules.checkQuery(dslQuery, model, transformations);
  refuseIfAny([
    ...(query?.ok === false ? query.problems : []),
    ...checkEventFilters(rules, model, config),
    ...checkDecimalEntries(config.decimal_columns, 'destination__config__decimal_columns'),
    ...checkPartitionEntries(readFileSettings(config).partitionBy).map((detail) => ({
      ...{ code: 'invalid_input' as const, detail },
      attr: 'destination__config__partition_by',
    })),
  ]);
}
