import { type DecimalColumn, readDecimalColumns } from './decimal-columns.ts';

type Config = Readonly<Record<string, unknown>>;

/** Equal settings and equal rows give equal files. A format ignores the settings of others. */
export interface FormatSettings {
  /** Texts of a CSV that a spreadsheet takes for formulas get an apostrophe in front. */
  readonly csvFormulaGuard: boolean;
  /** Columns of numeric that Parquet writes as DECIMAL by choice; null: none. */
  readonly decimalColumns: readonly DecimalColumn[] | null;
  readonly infinity: InfinityChoice;
  /** The form of arrays and composites in CSV: JSON, or as PostgreSQL prints them, so that COPY reads them. */
  readonly csvArrays: 'json' | 'postgres';
  readonly csvDelimiter: CsvDelimiter;
  /** The form of a null in CSV; `empty` is a cell of no characters, without quotes. */
  readonly csvNull: CsvNull;
  readonly csvBom: boolean;
  readonly csvHeader: boolean;
  /** The form of a time of day in Parquet: its type TIME, or as text. */
  readonly timeAs: TimeAs;
  /** The form of the JSON value null of a json column: the text `null`, or a null of the column. */
  readonly jsonNull: 'keep' | 'null';
  /** True if halves of surrogate pairs in json values become U+FFFD. */
  readonly replaceInvalidUnicode: boolean;
  /** The format of the table that the files make; its columns have ids in the files. Null: none. */
  readonly tableFormat: TableFormat | null;
}

export const csvDelimiters = ['comma', 'semicolon', 'tab', 'pipe'] as const;

export type CsvDelimiter = (typeof csvDelimiters)[number];

export const csvNulls = ['empty', '\\N', 'NULL'] as const;

export type CsvNull = (typeof csvNulls)[number];

export const timeForms = ['micros', 'text'] as const;

export type TimeAs = (typeof timeForms)[number];

export const tableFormats = ['iceberg'] as const;

export type TableFormat = (typeof tableFormats)[number];

/** Of infinite times: `reject` as the format can (text formats write the word); `limit` to the years 1 to 9999, which every reader can hold. */
export const infinityChoices = ['reject', 'null', 'limit'] as const;

export type InfinityChoice = (typeof infinityChoices)[number];

/** Reads the settings of a config. A property that is absent or of a wrong type gets its usual value, for a choice the first. */
export function readFormatSettings(config: Config): FormatSettings {
  return {
    csvFormulaGuard: config.csv_formula_guard === true,
    decimalColumns: readDecimalColumns(config.decimal_columns),
    infinity: oneOf(infinityChoices, config.infinity),
    csvArrays: oneOf(['json', 'postgres'], config.csv_arrays),
    csvDelimiter: oneOf(csvDelimiters, config.csv_delimiter),
    csvNull: oneOf(csvNulls, config.csv_null),
    csvBom: config.csv_bom === true,
    csvHeader: config.csv_header !== false,
    timeAs: oneOf(timeForms, config.time_as),
    jsonNull: oneOf(['keep', 'null'], config.json_null),
    replaceInvalidUnicode: config.replace_invalid_unicode === true,
    tableFormat: oneOf([null, ...tableFormats], config.table_format),
  };
}

function oneOf<const T>(choices: readonly [T, ...T[]], value: unknown): T {
  return choices.find((choice) => choice === value) ?? choices[0];
}

/** The values of a config that says nothing, and a recipe, which says only what differs. */
const usual = readFormatSettings({});

/** The settings that a recipe keeps: those that are not the usual ones. */
export function settingsForRecipe(settings: FormatSettings): Partial<FormatSettings> {
  const names = Object.keys(usual) as (keyof FormatSettings)[];
  const changed = names.filter((name) => settings[name] !== usual[name]);
  return Object.fromEntries(changed.map((name) => [name, settings[name]]));
}

export function settingsOfRecipe(recipe: Partial<FormatSettings>): FormatSettings {
  const names = Object.keys(usual) as (keyof FormatSettings)[];
  const said = names.filter((name) => recipe[name] !== undefined);
  return { ...usual, ...Object.fromEntries(said.map((name) => [name, recipe[name]])) };
}
