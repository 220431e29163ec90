import { Ajv } from 'ajv';
import { parseSpanBack, parseTime } from '../../../foundation/domain/parse-time.ts';

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export const isUuid = (text: string): boolean => uuid.test(text);

/**
 * Compiles schemas into validators that collect every error. They do not convert types: "1" is not an
 * integer.
 */
export function createAjv(): Ajv {
  return new Ajv({
    allErrors: true,
    // With the schema that refused the value: it has the whole rule.
    verbose: true,
    discriminator: true,
    useDefaults: true,
    strict: false,
    formats: {
      'date-time': (text: string) => parseTime(text) !== null,
      'time-or-span': (text: string) => parseTime(text) !== null || parseSpanBack(text) !== null,
      uuid: isUuid,
      int32: true,
      uri: true,
      password: true,
    },
  });
}

interface QuerySchema {
  readonly properties?: Readonly<Record<string, { readonly type?: string }>>;
}

/** Converts the texts of a query string to the types of its schema: numbers and lists. */
export function typedQuery(schema: QuerySchema, query: Record<string, unknown>): object {
  const typed: Record<string, unknown> = { ...query };
  for (const [name, { type }] of Object.entries(schema.properties ?? {})) {
    const value = typed[name];
    if (type === 'integer' && typeof value === 'string' && /^-?\d+$/.test(value)) {
      typed[name] = Number(value);
    }
    if (type === 'number' && typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value)) {
      typed[name] = Number(value);
    }
    if (type === 'array' && typeof value === 'string') typed[name] = [value];
  }
  return typed;
}
