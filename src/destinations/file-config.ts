import { type TSchema, Type } from 'typebox';
import { checkKeyTemplate, keyVariables } from '../domain/key-template.ts';
import type { Problem } from '../domain/problem.ts';

/** The properties of every destination that writes files, and the rules over them. */

/** Which compressions a format takes; null, for none, is always the default. */
export const compressionsByFormat: Readonly<Record<string, readonly (string | null)[]>> = {
  JSONLines: [null, 'gzip', 'brotli', 'zstd'],
  CSV: [null, 'gzip', 'brotli', 'zstd'],
  Parquet: [null, 'snappy', 'gzip', 'zstd', 'lz4', 'brotli'],
};

/** A schema that also takes null, which clears the property. */
export function nullable<T extends TSchema>(schema: T, options: Record<string, unknown>) {
  return Type.Union([schema, Type.Null()], options);
}

const eventNames = Type.Array(Type.String({ minLength: 1, maxLength: 400 }), { maxItems: 1000 });

export const eventFilterProperties = {
  include_events: Type.Optional(
    nullable(eventNames, {
      description: 'Only events with these names are exported. Null or empty: all.',
      default: null,
      examples: [['$pageview', 'signed_up']],
    }),
  ),
  exclude_events: Type.Optional(
    nullable(eventNames, {
      description: 'Events with these names are not exported.',
      default: null,
      examples: [['$feature_flag_called']],
    }),
  ),
};

export const fileProperties = {
  prefix: Type.Optional(
    Type.String({
      description:
        'Put before every key. Variables are filled from the interval, plain names from its end: ' +
        `${keyVariables.map((name) => `{${name}}`).join(' ')}. Leading, trailing and doubled ` +
        'slashes are dropped.',
      default: '',
      maxLength: 900,
      examples: ['exports/{table}/{year}/{month}/{day}'],
    }),
  ),
  file_format: Type.Optional(
    Type.Enum(['JSONLines', 'CSV', 'Parquet'], {
      description: 'Format of the files.',
      default: 'JSONLines',
    }),
  ),
  compression: Type.Optional(
    nullable(Type.Enum(['gzip', 'brotli', 'zstd', 'snappy', 'lz4']), {
      description:
        'Compression of the files. JSONLines and CSV: null, gzip, brotli, zstd. ' +
        'Parquet: null, snappy, gzip, zstd, lz4, brotli.',
      default: null,
      examples: ['gzip'],
    }),
  ),
  max_file_size_mb: Type.Optional(
    nullable(Type.Integer({ minimum: 0, maximum: 5_000_000 }), {
      description: 'Files are split at about so many MiB. Null or 0: one file an interval.',
      default: null,
      examples: [100],
    }),
  ),
  manifest: Type.Optional(
    Type.Boolean({
      description: 'Whether a manifest is written last, with each file, its rows and SHA-256.',
      default: true,
    }),
  ),
  ...eventFilterProperties,
};

/** The rules over `fileProperties` that the schema cannot say. */
export function validateFileConfig(config: Record<string, unknown>): readonly Problem[] {
  const problems: Problem[] = [];
  const format = String(config.file_format ?? 'JSONLines');
  const compression = (config.compression ?? null) as string | null;
  const allowed = compressionsByFormat[format] ?? [];
  if (!allowed.includes(compression)) {
    const choices = allowed.map((choice) => choice ?? 'null').join(', ');
    problems.push({
      attr: 'compression',
      code: 'invalid_choice',
      detail: `${format} takes ${choices}.`,
    });
  }
  for (const detail of checkKeyTemplate(String(config.prefix ?? ''))) {
    problems.push({ attr: 'prefix', code: 'invalid_input', detail });
  }
  return problems;
}
