import { type Static, type TSchema, Type } from 'typebox';

/** `schema` or null, as one schema with two types: faster to serialise than a union. */
export function Nullable<T extends TSchema>(schema: T) {
  const { type } = schema as { type?: string };
  return Type.Unsafe<Static<T> | null>({ ...schema, type: [type, 'null'] });
}

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

/** A reference to a named schema. */
export function Ref<T extends TSchema>(schema: Named<T>) {
  return Type.Unsafe<Static<T>>({ $ref: `${schema.$id}#` });
}

/** A field of requests that make the files of intervals again. */
export const MissingRows = Type.Enum(['keep', 'drop'], {
  description:
    '`keep`: if delivered rows are missing from the new files of an interval, its run ends as Failed with `source.rows_missing`, and its files stay as they are. `drop`: the new files replace them, and these rows are removed. Default: `keep`.',
});

/** A time. Answers use UTC with microseconds. Requests may use any ISO 8601; the default offset is UTC. */
export const Time = Type.String({
  format: 'date-time',
  examples: ['2024-03-01T00:00:00.000000Z'],
});
