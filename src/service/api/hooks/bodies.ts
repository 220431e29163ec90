import { nearestName } from '../../../foundation/domain/nearest-name.ts';
import { notFound, Refusal } from '../../../foundation/domain/problem.ts';
import type { Api, Reply, Request } from '../api.ts';
import { malformed } from '../errors.ts';
import { addWarnings } from '../replies.ts';
import { refuseHostileJson, refuseHostileText } from '../validation/hostile-json.ts';
import { createAjv, knowModels, madeLate, typedQuery } from '../validation/validator.ts';

/**
 * An id that its schema refuses names no record: 404. A schema is compiled at the first request to its route.
 * @param atOnce compiles before the server is ready; fails if a schema is not valid
 */
export function validateWithSchemas(
  api: Api,
  shared: readonly object[],
  models: readonly string[],
  atOnce: boolean,
): void {
  const ajv = createAjv();
  knowModels(ajv, models);
  for (const schema of shared) ajv.addSchema(schema);
  api.setValidatorCompiler(({ schema, httpPart }) => {
    const isPath = httpPart === 'params';
    const { call, makeNow } = madeLate(() => {
      const validate = ajv.compile(schema as object);
      return (data: unknown) => {
        const value =
          httpPart === 'querystring' || isPath
            ? typedQuery(schema as object, data as Record<string, unknown>)
            : data;
        if (validate(value)) return { value };
        return { error: isPath ? notFound() : (validate.errors ?? []) };
      };
    });
    if (atOnce) makeNow();
    return call;
  });
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Accepts JSON bodies in UTF-8 of at most 1 MiB, within bounds that are checked before parsing; an empty body is `{}`. Other types get 415. */
export function takeJsonBodies(api: Api): void {
  api.removeAllContentTypeParsers();
  api.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    async (request: Request, body: Buffer) => {
      request.bodyBytes = body.length;
      return parseBody(body);
    },
  );
  api.addHook('onRequest', async (request) => {
    // Some clients send a Content-Type without a body.
    if (request.headers['content-length'] === '0') delete request.headers['content-type'];
  });
  api.addHook('preValidation', async (request) => {
    request.body ??= request.method === 'GET' || request.method === 'HEAD' ? undefined : {};
    refuseHostileText(request.query);
  });
}

function parseBody(bytes: Buffer): unknown {
  if (bytes.length === 0) return {};
  refuseHostileJson(bytes);
  let body: unknown;
  try {
    body = JSON.parse(utf8.decode(bytes));
  } catch (error) {
    const isText = error instanceof SyntaxError;
    throw malformed(isText ? 'The body is not valid JSON.' : 'The body is not valid UTF-8.');
  }
  refuseHostileText(body);
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new Refusal({ code: 'incorrect_type', detail: 'Expected a JSON object.', attr: null });
  }
  return body;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Fields of the body that repeat the operation's answer and that it does not apply. */
    repeated: Readonly<Record<string, unknown>>;
  }
}

/**
 * A field that an operation does not know could narrow what is sent, so it is refused, on each level of the body. Clients send back what
 * they have read: the fields of an operation's answer are taken away before the body is checked. A query parameter that it does not know
 * is named in the header Sluice-Warning. Call it before the routes are registered.
 */
export function refuseUnknownFields(api: Api): void {
  api.decorateRequest('repeated', null as unknown as Readonly<Record<string, unknown>>);
  api.addHook('onRoute', (route) => {
    const { schema = {}, config } = route;
    if (config?.scope === undefined) return;
    const body = schema.body as Schema | undefined;
    const taken = propertiesOf(body);
    const repeatable = new Set(
      answerFields(api, schema.response).filter((name) => !taken.has(name)),
    );
    const parameterNames = propertiesOf(schema.querystring as Schema | undefined);
    const check = async (request: Request, reply: Reply) => {
      warnOfParameters(request, reply, parameterNames);
      takeRepeated(request, repeatable);
      if (body === undefined) refuseFields(request);
    };
    route.preValidation = [check, route.preValidation ?? []].flat();
    route.schema = { ...schema, ...(body === undefined ? {} : { body: closed(body) }) };
  });
}

function answerFields(api: Api, response: unknown): readonly string[] {
  const answers = Object.entries((response ?? {}) as Readonly<Record<string, Schema>>);
  const [, answer] = answers.find(([status]) => status.startsWith('2')) ?? [];
  const { $ref } = answer?.anyOf?.[0] ?? answer ?? {};
  const resource = $ref === undefined ? undefined : api.getSchema($ref.replace(/#$/, ''));
  const names = propertiesOf(resource as Schema | undefined);
  return names.has('dsl_query') ? [...names, 'hogql_query'] : [...names];
}

const propertiesOf = (schema: Schema | undefined): ReadonlySet<string> =>
  new Set(Object.keys(schema?.properties ?? {}));

function takeRepeated(request: Request, repeatable: ReadonlySet<string>): void {
  const { body } = request;
  const fields = Object.entries((body ?? {}) as Readonly<Record<string, unknown>>);
  const isRepeated = ([name]: readonly [string, unknown]) => repeatable.has(name);
  request.repeated = Object.fromEntries(fields.filter(isRepeated));
  if (!fields.some(isRepeated)) return;
  request.body = Object.fromEntries(fields.filter((field) => !isRepeated(field)));
}

/** For an operation that takes no body. A body that is not an object is refused before. */
function refuseFields({ body }: Request): void {
  const [name] = Object.keys(body ?? {});
  if (name === undefined) return;
  const detail = 'This operation takes no fields. Send no body.';
  throw new Refusal({ code: 'invalid_input', detail, attr: name });
}

/** Parameters that a warning names, and letters of each name. */
const [shownParameters, shownLetters] = [10, 100];

function warnOfParameters({ query }: Request, reply: Reply, known: ReadonlySet<string>): void {
  const unknown = Object.keys(query as object).filter((name) => !known.has(name));
  const warnings = unknown.slice(0, shownParameters).map((name) => {
    const nearest = nearestName(name.slice(0, shownLetters), [...known], 3);
    const meant = nearest === null ? '' : ` Did you mean ${nearest}?`;
    return `The query parameter ${name.slice(0, shownLetters)} is unknown and was ignored.${meant}`;
  });
  addWarnings(reply, warnings);
}

interface Schema {
  readonly $ref?: string;
  readonly anyOf?: readonly Schema[];
  readonly type?: unknown;
  readonly properties?: Readonly<Record<string, object>>;
  readonly items?: unknown;
  readonly additionalProperties?: unknown;
}

/** Returns the same schema, but it takes only the fields that it names, on each level. Schemas that it refers to stay as they are. */
function closed(schema: unknown): object {
  const { properties, items, additionalProperties = false } = schema as Schema;
  return {
    ...(schema as object),
    ...(items === undefined ? {} : { items: closed(items) }),
    ...(properties === undefined
      ? {}
      : {
          additionalProperties,
          properties: Object.fromEntries(
            Object.entries(properties).map(([name, inner]) => [name, closed(inner)]),
          ),
        }),
  };
}
