import { isDeepStrictEqual } from 'node:util';
import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import type { Cadence } from '../../../foundation/domain/cadence.ts';
import {
  type Changes,
  type ExportMode,
  type ExportSettings,
  exportSettings,
} from '../../../foundation/domain/export-settings.ts';
import {
  type DestinationConfig,
  readFileSettings,
} from '../../../foundation/domain/file-settings.ts';
import type { Model } from '../../../foundation/domain/model.ts';
import { invalid, type Problem, problemsIn, Refusal } from '../../../foundation/domain/problem.ts';
import type { PropertyFilter } from '../../../foundation/domain/property-filter.ts';
import { isLocal } from '../../scheduling/boundary.ts';

interface CheckedConfig {
  /** Every fault; attributes begin with `destination__config`. */
  readonly problems: readonly Problem[];
  readonly config: DestinationConfig;
}

/** The checks of an export's parts by connectors and query. The composition root provides it. */
export interface ExportRules {
  readonly models: readonly Model[];
  readonly destinationTypes: readonly string[];
  /**
   * A complete config as it is stored for a project: at a store that all share, in the project's own place.
   * Call it before `checkDestination`.
   */
  encloseConfig(type: string, config: DestinationConfig, projectId: number): DestinationConfig;
  /** Checks a complete config, including its secrets. `type` is one of `destinationTypes`. */
  checkDestination(type: string, config: DestinationConfig): CheckedConfig;
  /** The place of a checked config's files, as a text to compare: two places have different texts. */
  placeOf(type: string, config: DestinationConfig): string;
  /** Properties of the config that are stored encrypted and that the API never shows. */
  secretProperties(type: string): readonly string[];
  /** Which of them is the id of a key: its end may be shown. Null: none. */
  keyIdProperty(type: string): string | null;
  /** Properties of the config besides the file settings: the place of the files, and how it is reached. */
  ownProperties(type: string): readonly string[];
  /** @param transformed whether its SELECT list is applied to rows that transformations changed */
  checkQuery(
    dslQuery: string,
    model: string,
    transformed: boolean,
  ):
    | {
        readonly ok: true;
        readonly schema: unknown;
        /** Key columns of the model that the SELECT list lacks, or has in another form. */
        readonly missingKeys: readonly string[];
      }
    | { readonly ok: false; readonly problems: readonly Problem[] };
  /** A query with the conditions of the filters `after`, and without those of the filters `before`. */
  applyFilters(
    dslQuery: string | null,
    before: readonly PropertyFilter[],
    after: readonly PropertyFilter[],
    model: Model,
  ):
    | { readonly ok: true; readonly dslQuery: string | null }
    | { readonly ok: false; readonly problems: readonly Problem[] };
}

/** Why an export has no query to check: its model was removed from the models file after it was created. */
export function modelGone(name: string): Problem {
  const detail = `This installation no longer has the model ${name}. Ask your operator to add it to MODELS_FILE again, or create an export of another model.`;
  return invalid('model', detail);
}

/** @returns a problem if a request says another value of a field that cannot change */
export function checkFixed(attr: string, current: string, said: string | undefined): Problem[] {
  const detail = `This field cannot change: leave it out or send "${current}".`;
  return problemsIn([said !== undefined && said !== current, attr, detail]);
}

/** Refuses PostgreSQL's form of arrays for rows that go through a chain, whose steps read JSON. */
export function checkCsvArrays(
  transformations: boolean,
  config: DestinationConfig,
): readonly Problem[] {
  const isWrong = transformations && readFileSettings(config).csvArrays !== 'json';
  const detail =
    'Not possible with transformations. Set csv_arrays to json, or transformations to false.';
  return problemsIn([isWrong, 'destination__config__csv_arrays', detail]);
}

/** Refuses what would leave a table behind that no commit goes on with, or would begin one without the files of before. */
export function checkTableStays(
  before: DestinationConfig,
  after: DestinationConfig,
  hasMoved: boolean,
): readonly Problem[] {
  const [was, is] = [readFileSettings(before), readFileSettings(after)];
  const fixed = (name: string, isOther: boolean, detail: string) =>
    problemsIn([
      isOther,
      `destination__config__${name}`,
      `${detail} Leave it as it is, or create an export with another prefix.`,
    ]);
  const isOtherFormat = was.tableFormat !== is.tableFormat;
  if (isOtherFormat) return fixed('table_format', true, 'table_format cannot change.');
  if (is.tableFormat === null) return [];
  const keepTypes = 'Columns of an Iceberg table keep their types.';
  const moved = 'An Iceberg table cannot move to another';
  const isOtherDecimal = !isDeepStrictEqual(was.decimalColumns, is.decimalColumns);
  if (isOtherDecimal) return fixed('decimal_columns', true, keepTypes);
  if (was.timeAs !== is.timeAs) return fixed('time_as', true, keepTypes);
  const isRenamed = was.fileName !== is.fileName;
  return [
    ...fixed('prefix', was.prefix !== is.prefix, `${moved} prefix.`),
    ...fixed('file_name', isRenamed, 'Files of an Iceberg table keep their names.'),
    ...fixed('bucket_name', hasMoved, `${moved} bucket or endpoint.`),
  ];
}

/** Refuses event filters on a model without events: otherwise they would fail at run time. */
export function checkEventFilters(
  rules: ExportRules,
  modelName: string,
  config: DestinationConfig,
): readonly Problem[] {
  const model = rules.models.find(({ name }) => name === modelName);
  if (!model || model.eventColumn !== null) return [];
  const { includeEvents, excludeEvents } = readFileSettings(config);
  const detail = `The model ${modelName} has no event column. Remove`;
  return problemsIn(
    [includeEvents !== null, 'destination__config__include_events', `${detail} include_events.`],
    [excludeEvents !== null, 'destination__config__exclude_events', `${detail} exclude_events.`],
  );
}

type Query = Pick<BatchExport, 'model' | 'dslQuery' | 'filters'>;

/**
 * The query of an export with the conditions of its filters, after a change. Filters that the request does not mention stay,
 * and a new query gets their conditions. Without filters an unchanged query loses their conditions, and a new one is as it was sent.
 */
export function changeFilters(
  { applyFilters, models }: Pick<ExportRules, 'applyFilters' | 'models'>,
  before: Query,
  { dslQuery: given, filters }: Changes<Omit<Query, 'model'>>,
): Omit<Query, 'model'> & { readonly problems: readonly Problem[] } {
  const dslQuery = given === undefined ? before.dslQuery : given;
  const unchanged = { dslQuery, filters: before.filters, problems: [] };
  const isNone = filters === undefined || filters === null || filters.length === 0;
  if (isNone && before.filters === null) return unchanged;
  const model = models.find(({ name }) => name === before.model);
  if (!model) return { ...unchanged, problems: [modelGone(before.model)] };
  const after = filters === undefined ? before.filters : isNone ? null : filters;
  const isNew = given !== undefined && given !== before.dslQuery;
  if (isNew && after === null) return { dslQuery, filters: null, problems: [] };
  const gone = filters === undefined ? [] : (before.filters ?? []);
  const changed = applyFilters(dslQuery, gone, after ?? [], model);
  return changed.ok
    ? { dslQuery: changed.dslQuery, filters: after, problems: [] }
    : { ...unchanged, problems: changed.problems };
}

interface Moded
  extends Pick<ExportSettings, 'mode' | 'keepSnapshots' | 'lookBackHours' | 'newBase'> {
  readonly model: string;
  readonly config: DestinationConfig;
}

export function checkMode(
  rules: Pick<ExportRules, 'models'>,
  { mode, keepSnapshots, lookBackHours, newBase, model, config }: Moded,
): Problem[] {
  const declared = rules.models.find(({ name }) => name === model);
  const { keepSnapshots: usual, newBase: firstBase } = exportSettings;
  const keepsOthers = keepSnapshots !== usual.default && keepSnapshots !== null;
  const remedy = 'Send mode snapshot, or ask your operator to name the column in MODELS_FILE.';
  return problemsIn(
    [
      mode === 'changes' && !declared?.changes,
      'mode',
      `The model ${model} has no version_column, so nothing says which rows changed. ${remedy}`,
    ],
    [
      mode !== 'changes' && newBase !== firstBase.default,
      'new_base',
      'new_base is for mode changes. Leave it out.',
    ],
    [
      mode === 'append' && declared?.intervalColumn === null,
      'mode',
      `The model ${model} has no interval_column, so nothing says when a row arrived. ${remedy}`,
    ],
    [
      mode !== 'snapshot' && keepsOthers,
      'keep_snapshots',
      'keep_snapshots is for mode snapshot. Leave it out.',
    ],
    [
      mode !== 'append' && lookBackHours !== null,
      'look_back_hours',
      `look_back_hours is for mode append. With mode ${mode}, the next run has what came late. Leave it out.`,
    ],
    [
      mode !== 'append' && !readFileSettings(config).writesManifest,
      'destination__config__manifest',
      `Mode ${mode} needs a manifest, which says what the files are. Set manifest to true.`,
    ],
  );
}

/** Finds the fault of a query of mode changes: readers apply changes by key. */
export function checkKeys(mode: ExportMode, missingKeys: readonly string[]): Problem[] {
  const isWrong = mode === 'changes' && missingKeys.length > 0;
  const detail = `With mode changes, readers apply rows by their key. Add ${missingKeys.join(', ')} to the SELECT list, as it is.`;
  return problemsIn([isWrong, 'dsl_query', detail]);
}

/** Refuses what makes runs of the past. @throws Refusal if the mode has none */
export function refusePast(mode: ExportMode, attr: string | null): void {
  if (mode !== 'append') throw new Refusal(noPast(mode, attr));
}

export function noPast(mode: ExportMode, attr: string | null): Problem {
  const detail = `An export of mode ${mode} has no past: the source has only its present rows, which the next tick exports. ${mode === 'changes' ? 'To get all rows again, raise new_base.' : 'To export now, retry the newest run.'}`;
  return invalid(attr, detail);
}

type DeadlineSettings = Pick<BatchExport, 'deadlineMinutes' | 'deadlineAt' | 'warnMinutes'>;

/** Returns the problems of a deadline. @param cadence null: it has problems of its own */
export function checkDeadline(
  { deadlineMinutes, deadlineAt, warnMinutes }: DeadlineSettings,
  cadence: Cadence | null,
): Problem[] {
  return problemsIn(
    [
      deadlineMinutes !== null && deadlineAt !== null,
      'deadline_at',
      'Send deadline_minutes or deadline_at, not both. null removes the other one.',
    ],
    [
      deadlineAt !== null && cadence !== null && !isLocal(cadence),
      'deadline_at',
      `deadline_at is for the intervals day and week. For ${cadence?.interval}, use deadline_minutes.`,
    ],
    [
      warnMinutes !== null && deadlineMinutes === null && deadlineAt === null,
      'warn_minutes',
      'warn_minutes needs deadline_minutes or deadline_at. Set one of them, or send null.',
    ],
  );
}

/** The deadline after a change. One kind that is set replaces the other kind, and without a deadline there is no warning. */
export function changeDeadline(
  before: DeadlineSettings,
  change: { readonly [Name in keyof DeadlineSettings]?: DeadlineSettings[Name] | undefined },
): DeadlineSettings {
  const { deadlineMinutes, deadlineAt, warnMinutes } = change;
  const minutes = deadlineMinutes ?? null;
  const at = deadlineAt ?? null;
  const after = {
    deadlineMinutes:
      deadlineMinutes === undefined ? (at === null ? before.deadlineMinutes : null) : minutes,
    deadlineAt: deadlineAt === undefined ? (minutes === null ? before.deadlineAt : null) : at,
  };
  const hasDeadline = after.deadlineMinutes !== null || after.deadlineAt !== null;
  const previousMinutes = hasDeadline ? before.warnMinutes : null;
  return { ...after, warnMinutes: warnMinutes === undefined ? previousMinutes : warnMinutes };
}
