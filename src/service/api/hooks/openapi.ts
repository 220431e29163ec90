import fastify from 'fastify';
import swagger from '@fastify/swagger';
import type { Api } from '../api.ts';
import { errorsOf } from '../errors.ts';
import { otherPath, posthogTag } from '../posthog/names.ts';
import { namedSchemas } from '../shapes.ts';
import { madeLate } from '../validation/validator.ts';
import { takesIdempotencyKey } from './idempotency.ts';

/** For the document alone: the hook reads the header by itself. */
const idempotencyHeader = {
  type: 'object',
  properties: {
    'Idempotency-Key': {
      type: 'string',
      pattern: '^[\\x21-\\x7e]{1,255}$',
      description:
        'Any text that is new for each change, such as a UUID. A request that is repeated with it within 24 hours takes effect once and gets the same answer.',
    },
  },
};

export async function describeApi(api: Api, shared: readonly object[], atOnce: boolean) {
  const schemas = [...namedSchemas, ...shared];
  for (const schema of schemas) api.addSchema(schema);
  await shareSerializers(api, schemas, atOnce);
  api.addHook('onRoute', ({ schema, config, method }) => {
    if (!schema || !config?.scope) return;
    schema.response = { ...(schema.response as object), ...errorsOf(String(method)) };
  });
  await api.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Sluice',
        version: '0.1.0',
        description: 'Exports rows from PostgreSQL to S3 on a schedule: every row exactly once.',
        license: { name: 'MIT', identifier: 'MIT' },
      },
      servers: [{ url: '/' }],
      components: {
        securitySchemes: {
          apiKey: { type: 'http', scheme: 'bearer', description: 'A personal API key.' },
        },
      },
    },
    transform: ({ schema, url, route }) => {
      const { scope, operatorsMay } = route.config ?? {};
      const operators = operatorsMay ? [{ apiKey: ['operator:read'] }] : [];
      const headers = takesIdempotencyKey(route) ? { headers: idempotencyHeader } : {};
      return {
        schema: scope
          ? {
              ...schema,
              ...headers,
              security: [{ apiKey: scope === 'any' ? [] : [scope] }, ...operators],
            }
          : schema,
        url,
      };
    },
    transformObject: (documented) =>
      'openapiObject' in documented
        ? documentForClients(withOtherPaths(documented.openapiObject))
        : documented.swaggerObject,
    refResolver: {
      buildLocalReference: (json, _base, _fragment, index) => String(json.$id ?? `def-${index}`),
    },
  });
}

type Json = Readonly<Record<string, unknown>>;

/** The document, with the operations on exports under the names that clients of PostHog give their paths. */
function withOtherPaths<Document extends { readonly paths?: object }>(document: Document) {
  const paths = Object.entries((document.paths ?? {}) as Readonly<Record<string, Json>>);
  const others = paths.flatMap(([path, operations]) => {
    const other = path.includes('/batch_exports') ? otherPath(path) : null;
    return other === null ? [] : [[other, inEnvironment(operations)] as const];
  });
  return { ...document, paths: { ...document.paths, ...Object.fromEntries(others) } };
}

function inEnvironment(operations: Json): Json {
  const renamed = Object.entries(operations).map(([method, operation]) => {
    const { operationId, ...rest } = operation as Json;
    const names = { operationId: `${operationId}OfEnvironment`, tags: [posthogTag] };
    return [method, { ...rest, ...names }];
  });
  return Object.fromEntries(renamed);
}

/**
 * A copy of the OpenAPI document that generators of clients read as it is meant:
 *
 * - `default` becomes `x-default` and a sentence: they make a field with a default required, also in requests;
 * - a body without a required field may be left out: they ask for it otherwise;
 * - a discriminator names the schema of each value: without it they compare with the names of their own types.
 */
function documentForClients(document: object): object {
  return copy(document as Json, false) as object;
}

/** @param namesProperties whether the keys of `value` are names of properties, not keywords */
function copy(value: unknown, namesProperties: boolean): unknown {
  if (Array.isArray(value)) return value.map((item) => copy(item, false));
  if (!isRecord(value)) return value;
  const entries = Object.entries(value).map(([name, inner]): [string, unknown] => {
    if (namesProperties) return [name, copy(inner, false)];
    if (name === 'examples' || name === 'example') return [name, inner];
    if (name === 'requestBody') return [name, optionalBody(copy(inner, false))];
    return [name, copy(inner, name === 'properties')];
  });
  const copied = Object.fromEntries(entries);
  return namesProperties ? copied : withMapping(withoutDefault(copied));
}

function optionalBody(body: unknown): unknown {
  if (!isRecord(body) || !isRecord(body.content)) return body;
  const media = body.content['application/json'];
  const schema = isRecord(media) ? media.schema : undefined;
  const canBeEmpty = isRecord(schema) && schema.type === 'object' && !('required' in schema);
  return canBeEmpty ? { ...body, required: false } : body;
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

/**
 * Compiles the serializer of each answer's schema once, for its first answer. Fastify compiles one for each status of each route.
 * @param atOnce compiles before the server is ready; fails if a schema is not valid
 */
async function shareSerializers(api: Api, schemas: readonly object[], atOnce: boolean) {
  // A server without routes of ours: only a server that has become ready has Fastify's own compiler.
  const compiling = fastify();
  for (const schema of schemas) compiling.addSchema(schema);
  compiling.get('/', { schema: { response: { 200: { type: 'null' } } } }, async () => null);
  await compiling.ready();
  const compile = compiling.serializerCompiler;
  if (!compile) throw new Error('Fastify has no compiler of serializers.');
  const serializers = new Map<string, ReturnType<typeof compile>>();
  api.setSerializerCompiler((route) => {
    const text = JSON.stringify(route.schema);
    const serializer = serializers.get(text);
    if (serializer) return serializer;
    const { call, makeNow } = madeLate(() => compile(route));
    if (atOnce) makeNow();
    serializers.set(text, call);
    return call;
  });
}
