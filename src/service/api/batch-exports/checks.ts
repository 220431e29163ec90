import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { findDecimalFault } from '../../../foundation/domain/decimal-columns.ts';
import { describeError } from '../../../foundation/domain/describe-error.ts';
import type { SluiceError } from '../../../foundation/domain/errors.ts';
import type { ExportMode } from '../../../foundation/domain/export-settings.ts';
import {
  type DestinationConfig,
  type FileSettings,
  readFileSettings,
} from '../../../foundation/domain/file-settings.ts';
import { usualMode } from '../../../foundation/domain/model.ts';
import { findPartitionFault } from '../../../foundation/domain/partition.ts';
import { invalid, Refusal } from '../../../foundation/domain/problem.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import { noteInLog } from '../../use-cases/exports/activity.ts';
import type { CreateExportInput } from '../../use-cases/exports/create-export.ts';
import { readNewDestination } from '../../use-cases/exports/destination.ts';
import {
  changeFilters,
  checkEventFilters,
  type ExportRules,
} from '../../use-cases/exports/rules.ts';
import { sampleIntervalOf } from '../../use-cases/exports/schedule.ts';
import type { UpdateExportInput } from '../../use-cases/exports/update-export.ts';
import { actorOf, type Reply, type Request } from '../api.ts';
import type { Deps, DescribedRequest, FoundTablePlace } from '../options.ts';
import { addWarnings, lookPatiently } from '../replies.ts';
import { newQuery } from './input.ts';

export interface Runnable {
  readonly teamId: number;
  readonly model: string;
  /** Missing: append, if the model has a time of arrival. */
  readonly mode?: ExportMode | undefined;
  readonly dslQuery: string | null;
  readonly transformations: boolean;
  readonly config: DestinationConfig;
  /** `sampleIntervalOf` its schedule. */
  readonly sampleInterval: DataInterval;
}

/** Says whether a change decides which rows an export reads, in which intervals, or what their columns must be. */
export function changesRows({ destination, settings, ...change }: UpdateExportInput): boolean {
  const { dslQuery, filters, transformations, interval, timezone, offsetDay, offsetHour } = change;
  const times = [interval, timezone, offsetDay, offsetHour, settings?.mode];
  const rows = rowSettings.map((name) => destination?.config?.[name]);
  const fields = [dslQuery, filters, transformations, ...rows, ...times];
  return fields.some((field) => field !== undefined);
}

/** The settings of a destination that are about the rows. All destinations have the same. */
export const rowSettings = [
  ...['include_events', 'exclude_events', 'decimal_columns', 'partition_by'],
];

export function newRunnable(rules: ExportRules, input: CreateExportInput, teamId: number) {
  const { dslQuery } = newQuery(rules, input);
  const { config } = input.destination;
  return { ...input, teamId, dslQuery, config, sampleInterval: sampleIntervalOf(input) };
}

export function changedRunnable(
  rules: ExportRules,
  before: BatchExport,
  input: UpdateExportInput,
): Runnable {
  const { teamId, model } = before;
  const { dslQuery } = changeFilters(rules, before, input);
  const { transformations = before.transformations } = input;
  const mode = input.settings?.mode ?? before.mode;
  const config = { ...before.destination.config, ...input.destination?.config };
  const sampleInterval = sampleIntervalOf(input, before.cadence);
  return { teamId, model, mode, dslQuery, transformations, config, sampleInterval };
}

/**
 * Asks the source whether it can read the rows of an export. If it cannot be asked now, the export is accepted.
 * @throws Refusal if the query, the event filters or the model cannot run, or if decimal_columns or partition_by do not fit
 */
export async function checkOnSource(
  { describeQuery, previews, rules }: Deps,
  request: Request,
  reply: Reply,
  runnable: Runnable,
): Promise<readonly string[]> {
  if (!describeQuery) return [];
  const { teamId, model, dslQuery, transformations, config } = runnable;
  // A fault that the rules refuse, the use case refuses with all others.
  if (dslQuery !== null && !rules.checkQuery(dslQuery, model, transformations).ok) return [];
  if (checkEventFilters(rules, model, config).length > 0) return [];
  const declared = rules.models.find(({ name }) => name === model);
  const { mode = usualMode(declared) } = runnable;
  if (mode === 'append' && declared?.intervalColumn === null) return [];
  const { includeEvents, excludeEvents, decimalColumns, partitionBy } = readFileSettings(config);
  const select = transformations ? 'columns' : 'rows';
  const describedRequest: DescribedRequest = {
    ...{ teamId, model, dslQuery, includeEvents, excludeEvents, whole: mode !== 'append' },
    ...{ select, interval: runnable.sampleInterval },
  };
  const { organizationId } = actorOf(request);
  const look = async (signal: AbortSignal) => {
    const describe = (what: typeof describedRequest) =>
      describeQuery(what, (work) => previews.use(organizationId, signal, work), signal);
    const { columns, warnings } = await describe(describedRequest);
    if (decimalColumns !== null || partitionBy.length > 0) {
      // Transformations get the names of the model, not those of the SELECT list.
      const rows = transformations
        ? (await describe({ ...describedRequest, select: 'rows' })).columns
        : columns;
      refuseColumns('decimal_columns', findDecimalFault(decimalColumns, rows));
      refuseColumns('partition_by', findPartitionFault(partitionBy, rows));
    }
    return [
      ...warnings,
      ...describeTwins(columns.map(({ name }) => name)),
      ...describeTimes(columns, readFileSettings(config)),
    ];
  };
  return lookPatiently(reply, queryUnchecked, look, (error) => {
    const { code, spec, detail } = error;
    const attr = code === 'query.invalid_events' ? filterOf(config) : (attributes[code] ?? null);
    if (!spec.retryable && attr !== null) {
      throw new Refusal(invalid(attr, describeError(error)));
    }
    return `${code}${detail ? ` (${detail})` : ''}. ${spec.means}`;
  });
}

function refuseColumns(name: string, fault: string | null): void {
  if (fault === null) return;
  throw new Refusal(invalid(`destination__config__${name}`, `${name}: ${fault}.`));
}

const queryUnchecked = 'The query and the model were accepted without a check on the source';

const filterOf = (config: DestinationConfig) =>
  `destination__config__${readFileSettings(config).includeEvents ? 'include' : 'exclude'}_events`;

const attributes: Partial<Record<SluiceError['code'], string>> = {
  'query.invalid': 'dsl_query',
  'source.model_invalid': 'model',
  'source.relation_missing': 'model',
  'source.permission_denied': 'model',
  'source.function_failed': 'model',
  'source.schema_changed': 'model',
  'source.unsupported': 'model',
  'source.unknown_model': 'model',
};

/** Columns that differ only in case are one column to DuckDB, Spark, BigQuery and Athena. */
function describeTwins(columns: readonly string[]): readonly string[] {
  const byFolded = new Map<string, string[]>();
  for (const name of columns) {
    const folded = name.toLowerCase();
    byFolded.set(folded, [...(byFolded.get(folded) ?? []), name]);
  }
  const twins = [...byFolded.values()].filter((names) => names.length > 1);
  if (twins.length === 0) return [];
  const list = twins.map((names) => names.map((name) => JSON.stringify(name)).join(' and '));
  return [
    `Columns differ only in upper and lower case: ${list.join('; ')}. Many readers, such as DuckDB, Spark and BigQuery, treat them as one column. Rename one with AS in dsl_query.`,
  ];
}

/** Spark and others refuse a whole file, or table, that has a column of type TIME. */
function describeTimes(
  columns: readonly { readonly name: string; readonly sourceType: string }[],
  { format, timeAs }: Pick<FileSettings, 'format' | 'timeAs'>,
): readonly string[] {
  if (format !== 'Parquet' || timeAs === 'text') return [];
  const form = /^time(?:\(\d\))? without time zone(?:\[\])*$/;
  const times = columns.filter(({ sourceType }) => form.test(sourceType));
  if (times.length === 0) return [];
  const names = times.map(({ name }) => JSON.stringify(name)).join(', ');
  return [
    `Columns of type time: ${names}. Spark refuses a Parquet file or an Iceberg table that has them. Set time_as to text if Spark reads the files.`,
  ];
}

export async function warn(
  request: Request,
  reply: Reply,
  batchExport: Pick<BatchExport, 'id' | 'teamId'>,
  warnings: readonly string[],
): Promise<void> {
  if (warnings.length === 0) return;
  addWarnings(reply, warnings);
  await noteInLog(request.context.db, batchExport, 'WARNING', ...warnings);
}

/** @throws Refusal if the place of a new export's table has one. If the store cannot be asked now, the export is accepted */
export async function checkTablePlace(
  { findTable, tests, rules }: Deps,
  request: Request,
  reply: Reply,
  input: Pick<CreateExportInput, 'model' | 'destination'> & { readonly teamId: number },
): Promise<readonly string[]> {
  const { teamId, model, destination } = input;
  if (!findTable || readFileSettings(destination.config).tableFormat === null) return [];
  const config = readConfig(rules, teamId, destination);
  // The use case refuses it with all other faults.
  if (config === null) return [];
  const { organizationId } = actorOf(request);
  const look = async (signal: AbortSignal) => {
    const existing = await tests.use(organizationId, signal, () =>
      findTable({ teamId, model, type: destination.type, config }, signal),
    );
    if (!existing) return [];
    throw new Refusal(invalid('destination__config__prefix', describe(existing)));
  };
  return lookPatiently(reply, placeUnchecked, look, describeError);
}

const placeUnchecked =
  'The export was accepted without a check for another Iceberg table at its prefix';

function readConfig(
  rules: Deps['rules'],
  teamId: number,
  { type, config }: CreateExportInput['destination'],
): DestinationConfig | null {
  try {
    return readNewDestination(rules, teamId, type, config);
  } catch (error) {
    if (error instanceof Refusal) return null;
    throw error;
  }
}

function describe({ key, owner, folder }: FoundTablePlace): string {
  const whose = owner === null ? 'of another program' : `of the export ${owner}`;
  const place = folder === '' ? 'in the bucket' : `below ${folder}/`;
  return `${key} is the Iceberg table ${whose}. A table belongs to one export. Choose another prefix. If you no longer need the table, delete or move everything ${place}, then send this request again.`;
}
