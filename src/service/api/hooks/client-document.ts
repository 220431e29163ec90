type Json = Readonly<Record<string, unknown>>;

/**
 * A copy of the OpenAPI document that generators of clients read as it is meant:
 *
 * - `default` becomes `x-default` and a sentence: they make a field with a default required, also in requests;
 * - a discriminator names the schema of each value: without it they compare with the names of their own types.
 */
export function documentForClients(document: object): object {
  return copy(document as Json, false) as object;
}

/** @param namesProperties whether the keys of `value` are names of properties, not keywords */
function copy(value: unknown, namesProperties: boolean): unknown {
  if (Array.isArray(value)) return value.map((item) => copy(item, false));
  if (!isRecord(value)) return value;
  const entries = Object.entries(value).map(([name, inner]): [string, unknown] => {
    if (namesProperties) return [name, copy(inner, false)];
    if (name === 'examples' || name === 'example') return [name, inner];
    return [name, copy(inner, name === 'properties')];
  });
  const copied = Object.fromEntries(entries);
  return namesProperties ? copied : withMapping(withoutDefault(copied));
}

function withoutDefault(schema: Json): Json {
  const isSchema = ['type', 'anyOf', 'enum', 'oneOf'].some((keyword) => keyword in schema);
  if (!isSchema || !('default' in schema)) return schema;
  const { default: preset, description, ...rest } = schema;
  const isNothing = preset === null || preset === '';
  const sentence = isNothing ? '' : `Default: ${preset}.`;
  const text = [description, sentence]
    .filter((part) => part !== undefined && part !== '')
    .join(' ');
  return { ...rest, ...(text === '' ? {} : { description: text }), 'x-default': preset };
}

function withMapping(schema: Json): Json {
  const { discriminator, oneOf } = schema;
  if (!isRecord(discriminator) || !Array.isArray(oneOf)) return schema;
  const references = oneOf.map((branch: Json) => String(branch.$ref));
  // A destination's schema is named after its type.
  const mapping = Object.fromEntries(references.map((ref) => [ref.split('/').at(-1), ref]));
  return { ...schema, discriminator: { ...discriminator, mapping } };
}

function isRecord(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
