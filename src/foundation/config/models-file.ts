import { readFileSync } from 'node:fs';
import { Errors } from 'typebox/value';
import { type Document, LineCounter, parseDocument } from 'yaml';
import { changeColumnNames } from '../domain/element.ts';
import type { Model, ModelChanges, ModelColumn } from '../domain/model.ts';
import { ConfigError, readSecret } from './config.ts';
import { type ModelEntry, ModelsFile } from './models-schema.ts';
import { findAddressFault, inClientWords, isPostgresAddress } from './postgres-address.ts';

/** A model and the database that its rows are in. */
export interface SourcedModel {
  readonly model: Model;
  /** Null: SOURCE_DATABASE_URL. */
  readonly sourceUrl: string | null;
  /** The primary of a standby. Null: SOURCE_PRIMARY_URL if the source is SOURCE_DATABASE_URL, else none. */
  readonly primaryUrl: string | null;
  readonly sourceName?: string | undefined;
  readonly primaryName?: string | undefined;
  readonly addressFault?: string;
}

export interface ModelsFileOptions {
  /** Returns what is wrong with an operator's SQL expression, or null. */
  readonly checkExpression: (expression: string) => string | null;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** True if a model with an address that is not valid is kept, with its `addressFault`. */
  readonly keepsFaultyAddresses?: boolean;
}

/** A position in the file: `['models', 0, 'name']`. */
type Path = readonly (string | number)[];
type Report = (path: Path, problem: string) => void;

/** @throws ConfigError that gives the file, line, path and remedy of each fault */
export function readModelsFile(path: string, options: ModelsFileOptions): readonly SourcedModel[] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError([
      `MODELS_FILE names ${path}, which cannot be read (${reason}): create the file or correct the path.`,
    ]);
  }
  return parseModelsFile(text, path, options);
}

export function parseModelsFile(
  text: string,
  name: string,
  options: ModelsFileOptions,
): readonly SourcedModel[] {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  const at = (offset: number) => `${name}:${lines.linePos(offset).line}`;
  const broken = [...document.errors, ...document.warnings];
  if (broken.length > 0) {
    throw new ConfigError(
      broken.map(({ message, pos }) => {
        return `${at(pos[0])} is not valid YAML: ${message.split('\n')[0]}`;
      }),
    );
  }
  const faults: { readonly offset: number; readonly text: string }[] = [];
  const report: Report = (path, problem) => {
    const offset = offsetOf(document, path);
    faults.push({ offset, text: `${at(offset)} ${pathText(path)} ${problem}` });
  };
  const models = checkEntries(document.toJS(), report, options);
  if (faults.length === 0) return models;
  throw new ConfigError(
    faults.toSorted((one, other) => one.offset - other.offset).map((fault) => fault.text),
  );
}

/** Reports every fault; the models are valid if none was reported. */
function checkEntries(
  value: unknown,
  report: Report,
  options: ModelsFileOptions,
): readonly SourcedModel[] {
  const flawed = new Set<unknown>();
  for (const error of Errors(ModelsFile, value) as Iterable<SchemaFault>) {
    const faults = describeSchemaFault(error, value);
    for (const { path, problem } of faults) {
      flawed.add(path[0] === 'models' && path.length > 1 ? path[1] : 'file');
      report(path, problem);
    }
  }
  if (flawed.has('file')) return [];
  const { models } = value as ModelsFile;
  const names = new Set<string>();
  return models.flatMap((entry, index) => {
    if (flawed.has(index)) return [];
    if (names.has(entry.name)) {
      report(['models', index, 'name'], `repeats "${entry.name}": give each model its own name.`);
    }
    names.add(entry.name);
    return [checkEntry(entry, ['models', index], report, options)];
  });
}

function checkEntry(
  entry: ModelEntry,
  path: Path,
  report: Report,
  { checkExpression, keepsFaultyAddresses = false, env = process.env }: ModelsFileOptions,
): SourcedModel {
  const names = new Set<string>();
  for (const [index, { name, expression }] of entry.columns.entries()) {
    const column = [...path, 'columns', index];
    if (names.has(name)) {
      report([...column, 'name'], `repeats "${name}": give each column its own name.`);
    }
    names.add(name);
    const wrong = expression === undefined ? null : checkExpression(expression);
    if (wrong !== null) {
      report([...column, 'expression'], `${wrong}: write one SQL expression over the relation.`);
    }
  }
  checkChanges(entry, path, report);
  const addressFaults: string[] = [];
  const reportAddress: Report = keepsFaultyAddresses
    ? (at, problem) => addressFaults.push(`${at.at(-1)} ${problem}`)
    : report;
  return {
    model: modelOf(entry),
    sourceUrl: readAddress(entry.source, [...path, 'source'], reportAddress, env),
    primaryUrl: readAddress(entry.settle_url, [...path, 'settle_url'], reportAddress, env),
    sourceName: entry.source,
    primaryName: entry.settle_url,
    ...(addressFaults.length > 0 && { addressFault: addressFaults.join(' ') }),
  };
}

/** Each way to find deletes needs its own fields, and takes no other. */
function checkChanges(entry: ModelEntry, path: Path, report: Report): void {
  const { version_column: version, deletes = 'none' } = entry;
  const fields = [
    { field: 'delete_column', of: 'column', isNeeded: true },
    { field: 'tombstone_relation', of: 'tombstones', isNeeded: true },
    { field: 'tombstone_days', of: 'tombstones', isNeeded: false },
    { field: 'compare_every', of: 'compare', isNeeded: false },
  ] as const;
  for (const { field, of, isNeeded } of fields) {
    const isSet = entry[field] !== undefined;
    if (isSet && deletes !== of) {
      report([...path, field], `is only for \`deletes: ${of}\`. Set deletes, or omit ${field}.`);
    }
    if (!isSet && isNeeded && deletes === of) {
      report([...path, 'deletes'], `is ${deletes}, which needs ${field}. Set ${field}.`);
    }
  }
  if (version === undefined) {
    for (const field of ['deletes', 'version_set_by'] as const) {
      if (entry[field] === undefined) continue;
      report([...path, field], 'needs version_column. Set version_column, or omit it.');
    }
    return;
  }
  for (const [index, { name }] of entry.columns.entries()) {
    if (!changeColumnNames.includes(name)) continue;
    report(
      [...path, 'columns', index, 'name'],
      `is ${name}, which exports of changes add themselves. Choose another name.`,
    );
  }
}

function readAddress(
  variable: string | undefined,
  path: Path,
  report: Report,
  env: Readonly<Record<string, string | undefined>>,
): string | null {
  if (variable === undefined) return null;
  try {
    const value = readSecret(env, variable);
    const fault = addressFault(value);
    if (fault === null) return inClientWords(value ?? '');
    report(path, `names ${variable}, which ${fault}. Correct it in the environment.`);
  } catch (error) {
    report(path, `names ${variable}: ${variable} ${(error as Error).message}.`);
  }
  return null;
}

function addressFault(value: string | undefined): string | null {
  if (value === undefined || value === '') return 'is not set';
  return isPostgresAddress(value) ? findAddressFault(value) : 'is not a postgres:// address';
}

function relationOf(text: string): Model['relation'] {
  const parts = text.match(/"(?:[^"]|"")+"|[^".]+/g) ?? [];
  const [schema = '', name = ''] = parts.map((part) =>
    part.startsWith('"') ? part.slice(1, -1).replaceAll('""', '"') : part,
  );
  return { schema, name };
}

/** In how many elements keys are compared once, unless the model says it. */
const usualCompareEvery = 24;

function changesOf(entry: ModelEntry): ModelChanges | null {
  const { version_column: versionColumn, delete_column: column } = entry;
  if (versionColumn === undefined) return null;
  const { tombstone_relation: tombstones, tombstone_days: days = null } = entry;
  const { deletes, compare_every: every = usualCompareEvery } = entry;
  const setBy = entry.version_set_by === 'client' ? 'client' : 'database';
  if (column !== undefined) return { versionColumn, setBy, deletes: { kind: 'column', column } };
  if (deletes === 'compare') return { versionColumn, setBy, deletes: { kind: 'compare', every } };
  if (tombstones === undefined) return { versionColumn, setBy, deletes: { kind: 'none' } };
  const relation = relationOf(tombstones);
  return { versionColumn, setBy, deletes: { kind: 'tombstones', relation, days } };
}

function modelOf(entry: ModelEntry): Model {
  return {
    name: entry.name,
    relation: relationOf(entry.relation),
    tenantColumn: entry.tenant_column,
    intervalColumn: entry.interval_column ?? null,
    keyColumns: entry.key_columns,
    eventColumn: entry.event_column ?? null,
    // The schema allows no other values.
    rowSecurity: (entry.row_security as Model['rowSecurity']) ?? null,
    onSchemaChange: (entry.on_schema_change as Model['onSchemaChange']) ?? 'fail',
    lookBackHours: entry.look_back_hours ?? null,
    changes: changesOf(entry),
    columns: entry.columns.map((column): ModelColumn => {
      const sourceType = fullTypeName(column.type);
      return {
        name: column.name,
        expression: column.expression ?? null,
        sourceType,
        json: sourceType === 'jsonb' || sourceType === 'json',
      };
    }),
  };
}

/** Short names of types, and PostgreSQL's full names. */
const fullNames: Readonly<Record<string, string>> = {
  int2: 'smallint',
  int: 'integer',
  int4: 'integer',
  int8: 'bigint',
  float4: 'real',
  float8: 'double precision',
  bool: 'boolean',
  decimal: 'numeric',
  varchar: 'character varying',
  timestamp: 'timestamp without time zone',
  timestamptz: 'timestamp with time zone',
  time: 'time without time zone',
  timetz: 'time with time zone',
};

function fullTypeName(type: string): string {
  const name = type.trim().toLowerCase();
  return Object.hasOwn(fullNames, name) ? (fullNames[name] ?? type) : type.trim();
}

/** The offset of a path in the text. If the path is missing: of its nearest parent. */
function offsetOf(document: Document.Parsed, path: Path): number {
  for (let length = path.length; length > 0; length -= 1) {
    const node = document.getIn(path.slice(0, length), true);
    const { range } = (node ?? {}) as { range?: readonly number[] };
    if (range?.[0] !== undefined) return range[0];
  }
  return document.contents?.range[0] ?? 0;
}

function pathText(path: Path): string {
  const text = path.map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`)).join('');
  return text.replace(/^\./, '') || 'the file';
}

interface SchemaFault {
  readonly keyword: string;
  readonly instancePath: string;
  readonly params: {
    readonly requiredProperties?: readonly string[];
    readonly additionalProperties?: readonly string[];
    readonly type?: string | readonly string[];
  };
}

interface Schema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

/** Turns a fault of the schema into messages for the author of the file. */
function describeSchemaFault(fault: SchemaFault, value: unknown) {
  const steps = fault.instancePath.split('/').slice(1);
  const path = steps.map((step) => (/^\d+$/.test(step) ? Number(step) : step));
  const about = (at: Path) => schemaAt(at)?.description ?? '';
  const type = String(fault.params.type);
  switch (fault.keyword) {
    case 'required':
      return (fault.params.requiredProperties ?? []).map((name) => ({
        path: [...path, name],
        problem: `is missing. ${about([...path, name])}`,
      }));
    case 'additionalProperties':
      return (fault.params.additionalProperties ?? []).map((name) => ({
        path: [...path, name],
        problem: `is unknown. Use one of: ${Object.keys(schemaAt(path)?.properties ?? {}).join(', ')}.`,
      }));
    // The library reports an unknown property twice; the second time, its schema is `false`.
    case 'boolean':
      return [];
    case 'type':
      return [{ path, problem: `must be ${typeNames[type] ?? type}. ${about(path)}` }];
    case 'minItems':
      return [{ path, problem: `is empty. ${about(path)}` }];
    case 'uniqueItems':
      return [{ path, problem: `has an item twice. ${about(path)}` }];
    default:
      return [{ path, problem: `${show(valueAt(value, path))} is not valid. ${about(path)}` }];
  }
}

function schemaAt(path: Path): Schema | undefined {
  let schema: Schema | undefined = ModelsFile as unknown as Schema;
  for (const step of path) {
    schema = typeof step === 'number' ? schema?.items : schema?.properties?.[step];
  }
  return schema;
}

function valueAt(value: unknown, path: Path): unknown {
  let inner = value;
  for (const step of path) inner = (inner as Record<string | number, unknown> | null)?.[step];
  return inner;
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? '';
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

const typeNames: Readonly<Record<string, string>> = {
  array: 'a list',
  integer: 'a whole number',
  object: 'a mapping',
  string: 'text',
};
