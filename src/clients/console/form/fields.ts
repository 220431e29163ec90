import type { Config } from '../api-types.ts';

/** The parts of JSON schema that destinations are described in. */
export interface PropertySchema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly PropertySchema[];
  readonly oneOf?: readonly PropertySchema[];
  readonly items?: PropertySchema;
  readonly title?: string;
  readonly description?: string;
  readonly 'x-default'?: unknown;
  /** True if a setting of an export is for `local` intervals only. */
  readonly 'x-setting'?: 'any' | 'local';
  readonly 'x-input'?: 'time';
  readonly examples?: readonly unknown[];
  readonly writeOnly?: boolean;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, PropertySchema>>;
}

export type FieldKind = 'text' | 'secret' | 'choice' | 'flag' | 'number' | 'time' | 'list' | 'json';

export interface Field {
  readonly name: string;
  readonly label: string;
  readonly kind: FieldKind;
  readonly required: boolean;
  readonly nullable: boolean;
  readonly description: string;
  readonly default: unknown;
  readonly example: string;
  readonly choices: readonly string[];
  readonly numeric?: boolean;
  readonly minimum: number | null;
  readonly maximum: number | null;
}

/** The values of the inputs: a list has one line per item. */
export type FieldValues = Readonly<Record<string, string | boolean>>;

/** The inputs of a config that a schema describes. */
export interface ConfigDraft {
  readonly values: FieldValues;
  readonly cleared: ReadonlySet<string>;
}

/** The fields of an object schema, in its order. */
export function fieldsOf(schema: PropertySchema): readonly Field[] {
  const required = schema.required ?? [];
  return Object.entries(schema.properties ?? {}).map(([name, property]) =>
    fieldOf(name, property, required.includes(name)),
  );
}

function fieldOf(name: string, property: PropertySchema, required: boolean): Field {
  const branches = property.anyOf ?? property.oneOf ?? [property];
  const types = branches.flatMap(({ type }) => type ?? []);
  const shape = branches.find((branch) => !isNull(branch)) ?? property;
  const example = property.examples?.[0];
  return {
    name,
    label: property.title ?? labelOf(name),
    kind: kindOf(property, shape),
    required,
    nullable: types.includes('null'),
    description: property.description ?? '',
    default: property['x-default'],
    example: Array.isArray(example) ? example.join('\n') : String(example ?? ''),
    choices: choicesOf(shape),
    ...(shape.enum || choicesOf(shape).length === 0 ? {} : { numeric: true }),
    minimum: shape.minimum ?? null,
    maximum: shape.maximum ?? null,
  };
}

/** Maximum whole numbers that are a choice rather than a number to enter. */
const mostNumbers = 5;

function choicesOf({ type, enum: words, minimum, maximum }: PropertySchema): readonly string[] {
  if (words) return words.filter((choice) => choice !== null).map(String);
  if (![type].flat().includes('integer') || minimum === undefined || maximum === undefined)
    return [];
  const count = maximum - minimum + 1;
  if (count > mostNumbers) return [];
  return Array.from({ length: count }, (_, index) => String(minimum + index));
}

function isNull({ type }: PropertySchema): boolean {
  return type === 'null';
}

function kindOf(property: PropertySchema, shape: PropertySchema): FieldKind {
  const type = [shape.type ?? 'string'].flat().find((name) => name !== 'null');
  if (property.writeOnly) return 'secret';
  if (property['x-input'] === 'time') return 'time';
  if (choicesOf(shape).length > 0) return 'choice';
  if (type === 'boolean') return 'flag';
  if (type === 'integer' || type === 'number') return 'number';
  return type === 'array' ? 'list' : 'text';
}

const spelled: Readonly<Record<string, string>> = {
  arn: 'ARN',
  aws: 'AWS',
  csv: 'CSV',
  id: 'ID',
  json: 'JSON',
  kms: 'KMS',
  mb: 'MiB',
  sql: 'SQL',
  url: 'URL',
};

/** Names that say too little by themselves. */
const labels: Readonly<Record<string, string>> = {
  max_file_size_mb: 'Maximum file size in MiB',
  partition_by: 'Folders by values',
  decimal_columns: 'Columns as DECIMAL',
  infinity: 'Infinite dates',
  json_null: 'JSON null',
  csv_arrays: 'Arrays in CSV',
  csv_delimiter: 'Delimiter of CSV',
  csv_null: 'Null in CSV',
  csv_bom: 'Byte order mark in CSV',
  csv_header: 'Header line in CSV',
  time_as: 'Times of day',
  csv_formula_guard: 'Guard against formulas in CSV',
  replace_invalid_unicode: 'Replace invalid Unicode',
  on_rejected: 'Rejected rows',
  include_events: 'Only these events',
  exclude_events: 'Not these events',
};

/** `aws_access_key_id` → `AWS access key ID` */
export function labelOf(name: string): string {
  const own = labels[name];
  if (own !== undefined) return own;
  const text = name
    .split('_')
    .map((word) => spelled[word] ?? word)
    .join(' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Says whether each export needs a decision about it. All other fields are under More. */
export function isFirst({ name, required, kind }: Field): boolean {
  return required || kind === 'secret' || name === 'file_format';
}

/** The first values of the inputs: those of the config, else the defaults. Secrets are empty. */
export function valuesOf(fields: readonly Field[], config: Config): FieldValues {
  return Object.fromEntries(
    fields.map(({ name, kind, default: preset }) => {
      const value = config[name] ?? preset ?? null;
      if (kind === 'secret') return [name, ''];
      if (kind === 'flag') return [name, value === true];
      return [name, Array.isArray(value) ? value.join('\n') : String(value ?? '')];
    }),
  );
}

/** A new export omits empty inputs. A change clears them, but an empty secret stays unless it is in `cleared`. */
export function configOf(
  fields: readonly Field[],
  values: FieldValues,
  change: { readonly isNew: boolean; readonly cleared: ReadonlySet<string> },
): Config {
  const config: Record<string, unknown> = {};
  for (const field of fields) {
    const value = values[field.name] ?? '';
    if (value !== '') config[field.name] = parseValue(field, value);
    else if (field.kind === 'secret') {
      if (change.cleared.has(field.name)) config[field.name] = null;
    } else if (!change.isNew) config[field.name] = field.nullable ? null : '';
  }
  return config;
}

/** Sends an invalid number unchanged, so that the API reports it. */
function parseValue({ kind, numeric }: Field, value: string | boolean): unknown {
  if (typeof value === 'boolean') return value;
  if (kind === 'number' || numeric) return Number.isFinite(Number(value)) ? Number(value) : value;
  if (kind !== 'list') return kind === 'secret' ? value.trim() : value;
  return value
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
}

/** Connects inputs with fields of a draft: value, change and error. The API's name of a field is its own, or the one that is given. */
export function fieldsIn<Draft extends object>(
  draft: Draft,
  onChange: (part: Partial<Draft>) => void,
  errors?: ReadonlyMap<string, string>,
) {
  return <Name extends keyof Draft & string>(name: Name, label: string, attr: string = name) => ({
    ...{ attr, label, value: draft[name], error: errors?.get(attr) },
    onChange: (value: Draft[Name]) => onChange({ [name]: value } as unknown as Partial<Draft>),
  });
}
