import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { findDecimalFault } from '../../../foundation/domain/decimal-columns.ts';
import type { SluiceError } from '../../../foundation/domain/errors.ts';
import { usualMode } from '../../../foundation/domain/model.ts';
import type { ExportMode } from '../../../foundation/domain/export-settings.ts';
import { describeError } from '../../../foundation/domain/describe-error.ts';
import {
  type DestinationConfig,
  type FileSettings,
  readFileSettings,
} from '../../../foundation/domain/file-settings.ts';
import { findPartitionFault } from '../../../foundation/domain/partition.ts';
import { Refusal } from '../../../foundation/domain/problem.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import { recordWarnings } from '../../use-cases/exports/record-warnings.ts';
import { changeFilters } from '../../use-cases/exports/filters.ts';
import { checkEventFilters, type ExportRules } from '../../use-cases/exports/rules.ts';
import { sampleIntervalOf } from '../../use-cases/exports/sample-interval.ts';
import type { CreateExportInput } from '../../use-cases/exports/create-export.ts';
import type { UpdateExportInput } from '../../use-cases/exports/update-export.ts';
import { actorOf, type Reply, type Request } from '../api.ts';
import type { Deps, DescribedRequest } from '../options.ts';
import { lookPatiently } from '../until-closed.ts';
import { addWarnings } from '../warnings.ts';
import { newQuery } from './input.ts';

/** The part of an export that its source must be able to run. */
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
export function changesRows({
  dslQuery,
  filters,
  transformations,
  destination,
  settings,
  ...cadence
}: UpdateExportInput): boolean {
  const {
    include_events: include,
    exclude_events: exclude,
    decimal_columns: decimals,
    partition_by: partitions,
  } = destination?.config ?? {};
  const { interval, timezone, offsetDay, offsetHour } = cadence;
  const times = [interval, timezone, offsetDay, offsetHour, settings?.mode];
  const rows = [include, exclude, decimals, partitions];
  const fields = [dslQuery, filters, transformations, ...rows, ...times];
  return fields.some((field) => field !== undefined);
}

/** An export as it would be made. */
export function newRunnable(
  rules: ExportRules,
  input: CreateExportInput,
  teamId: number,
): Runnable {
  const { model, mode, transformations } = input;
  const { dslQuery } = newQuery(rules, input);
  const { config } = input.destination;
  const sampleInterval = sampleIntervalOf(input);
  return { teamId, model, mode, dslQuery, transformations, config, sampleInterval };
}

/** An export as it would be after a change. */
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
 * Asks the source whether the rows of an export can be read, without reading any. If the source cannot be
 * asked now, the export is accepted: its runs will say what is wrong.
 *
 * @returns warnings for the export's owner
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
    select,
    interval: runnable.sampleInterval,
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
  return lookPatiently(reply, unchecked, look, (error) => {
    const { code, spec, detail } = error;
    const attr = code === 'query.invalid_events' ? filterOf(config) : (attributes[code] ?? null);
    if (!spec.retryable && attr !== null) {
      throw new Refusal({ code: 'invalid_input', detail: describeError(error), attr });
    }
    return `${code}${detail ? ` (${detail})` : ''}. ${spec.means}`;
  });
}

function refuseColumns(name: string, fault: string | null): void {
  if (fault === null) return;
  const attr = `destination__config__${name}`;
  throw new Refusal({ code: 'invalid_input', detail: `${name}: ${fault}.`, attr });
}

const unchecked = 'The query and the model were accepted without a check on the source';

const filterOf = (config: DestinationConfig) =>
  `destination__config__${readFileSettings(config).includeEvents ? 'include' : 'exclude'}_events`;

/** The field of a request that each error is about. */
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
  const times = columns.filter(({ sourceType }) =>
    /^time(?:\(\d\))? without time zone(?:\[\])*$/.test(sourceType),
  );
  if (times.length === 0) return [];
  const names = times.map(({ name }) => JSON.stringify(name)).join(', ');
  return [
    `Columns of type time: ${names}. Spark refuses a Parquet file or an Iceberg table that has them. Set time_as to text if Spark reads the files.`,
  ];
}

/** Puts warnings into the answer's headers and the export's log. */
export async function warn(
  request: Request,
  reply: Reply,
  batchExport: Pick<BatchExport, 'id' | 'teamId'>,
  warnings: readonly string[],
): Promise<void> {
  if (warnings.length === 0) return;
  addWarnings(reply, warnings);
  await recordWarnings(request.context, batchExport, warnings);
}
