import { isDeepStrictEqual } from 'node:util';
import {
  type DestinationConfig,
  readFileSettings,
} from '../../../foundation/domain/file-settings.ts';
import type { Model } from '../../../foundation/domain/model.ts';
import type { Problem } from '../../../foundation/domain/problem.ts';
import type { PropertyFilter } from '../../../foundation/domain/property-filter.ts';

export interface CheckedConfig {
  /** Every fault; attributes begin with `destination__config`. */
  readonly problems: readonly Problem[];
  /** The config with defaults for absent properties. */
  readonly config: DestinationConfig;
}

/** The checks of an export's parts by connectors and query. The composition root provides it. */
export interface ExportRules {
  /** Every model that can be exported. */
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
  /**
   * The schema of a query, or its problems.
   *
   * @param transformed whether its SELECT list is applied to rows that transformations changed
   */
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
export const modelGone = (name: string): Problem => ({
  code: 'invalid_input',
  detail: `This installation no longer has the model ${name}. Ask your operator to add it to MODELS_FILE again, or create an export of another model.`,
  attr: 'model',
});

/** Refuses PostgreSQL's form of arrays for rows that go through a chain, whose steps read JSON. */
export function checkCsvArrays(
  transformations: boolean,
  config: DestinationConfig,
): readonly Problem[] {
  if (!transformations || readFileSettings(config).csvArrays === 'json') return [];
  return [
    {
      code: 'invalid_input',
      detail:
        'Not possible with transformations. Set csv_arrays to json, or transformations to false.',
      attr: 'destination__config__csv_arrays',
    },
  ];
}

/**
 * Refuses what would leave a table behind that no commit goes on with, or would begin one without the files of
 * before.
 */
export function checkTableStays(
  before: DestinationConfig,
  after: DestinationConfig,
  hasMoved: boolean,
): readonly Problem[] {
  const [was, is] = [readFileSettings(before), readFileSettings(after)];
  const fixed = (name: string, detail: string): Problem => ({
    code: 'invalid_input',
    detail: `${detail} Leave it as it is, or create an export with another prefix.`,
    attr: `destination__config__${name}`,
  });
  if (was.tableFormat !== is.tableFormat) {
    return [fixed('table_format', 'table_format cannot change.')];
  }
  if (is.tableFormat === null) return [];
  if (!isDeepStrictEqual(was.decimalColumns, is.decimalColumns)) {
    return [fixed('decimal_columns', 'Columns of an Iceberg table keep their types.')];
  }
  if (was.timeAs !== is.timeAs) {
    return [fixed('time_as', 'Columns of an Iceberg table keep their types.')];
  }
  const moved = 'An Iceberg table cannot move to another';
  return [
    ...(was.prefix === is.prefix ? [] : [fixed('prefix', `${moved} prefix.`)]),
    ...(was.fileName === is.fileName
      ? []
      : [fixed('file_name', 'Files of an Iceberg table keep their names.')]),
    ...(hasMoved ? [fixed('bucket_name', `${moved} bucket or endpoint.`)] : []),
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
  return [
    ...(includeEvents ? ['include_events'] : []),
    ...(excludeEvents ? ['exclude_events'] : []),
  ].map((filter) => ({
    code: 'invalid_input',
    detail: `The model ${modelName} has no event column. Remove ${filter}.`,
    attr: `destination__config__${filter}`,
  }));
}
