import {
  type Static,
  type TNumberOptions,
  type TProperties,
  type TSchema,
  type TStringOptions,
  Type,
} from 'typebox';
import { type DataInterval, toTimestamp } from '../../foundation/domain/time.ts';

/** `schema` or null, as one schema with two types: faster to serialise than a union. */
export function Nullable<T extends TSchema>(schema: T) {
  const { type } = schema as { type?: string };
  return Type.Unsafe<Static<T> | null>({ ...schema, type: [type, 'null'] });
}

/** A time. Answers use UTC with microseconds. Requests may use any ISO 8601; the default offset is UTC. */
export const Time = Type.String({
  format: 'date-time',
  examples: ['2024-03-01T00:00:00.000000Z'],
});

/** Fields with a description for people. */
export const Text = (description: string) => Type.String({ description });
export const TextOrNull = (description: string) => Nullable(Text(description));
export const Int = (description: string) => Type.Integer({ description });
export const IntOrNull = (description: string) => Nullable(Int(description));
export const OptionalText = (options: TStringOptions) => Type.Optional(Type.String(options));
export const OptionalInt = (options: TNumberOptions) => Type.Optional(Type.Integer(options));
export const Flag = (description: string) => Type.Boolean({ description });
export const UuidOrNull = (description: string) =>
  Nullable(Type.String({ format: 'uuid', description }));
export const TimeOrNull = (description: string) => Nullable({ ...Time, description });

/** A schema with a name; the OpenAPI document defines it once. */
export type Named<T extends TSchema> = T & { readonly $id: string };

const allNamed: Named<TSchema>[] = [];
/** Every schema that a module has named. A module names its schemas once, when it is loaded. */
export const namedSchemas: readonly Named<TSchema>[] = allNamed;

export function named<T extends TSchema>(name: string, schema: T): Named<T> {
  const namedSchema = { ...schema, $id: name };
  allNamed.push(namedSchema);
  return namedSchema;
}

export function Resource<Fields extends TProperties>(
  name: string,
  description: string | null,
  fields: Fields,
) {
  return named(name, Type.Object(fields, description === null ? {} : { description }));
}

export const Part = <Fields extends TProperties>(description: string, fields: Fields) =>
  Type.Object(fields, { description });
export const PartOrNull = <Fields extends TProperties>(description: string, fields: Fields) =>
  Nullable(Part(description, fields));

export function Ref<T extends TSchema>(schema: Named<T>) {
  return Type.Unsafe<Static<T>>({ $ref: `${schema.$id}#` });
}

/** The answers of an operation that has one schema for them. */
export const answers = <T extends TSchema>(item: Named<T>) => ({ response: { 200: Ref(item) } });

export const Bounds = { start: Time, end: Time };
export const boundsView = ({ start, end }: DataInterval) => ({
  start: toTimestamp(start),
  end: toTimestamp(end),
});

/** A field of requests that make the files of intervals again. */
export const MissingRows = Type.Enum(['keep', 'drop'], {
  description:
    '`keep`: if delivered rows are missing from the new files of an interval, its run ends as Failed with `source.rows_missing`, and its files stay as they are. `drop`: the new files replace them, and these rows are removed. Default: `keep`.',
});
