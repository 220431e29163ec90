import { notFound, Refusal } from '../../../foundation/domain/problem.ts';
import type { Api, Request } from '../api.ts';
import { madeLate } from '../validation/made-late.ts';
import { knowModels } from '../validation/named-model.ts';
import { createAjv, typedQuery } from '../validation/validator.ts';
import { malformed } from '../api-error.ts';
import { refuseHostileText } from '../validation/hostile-text.ts';
import { refuseHostileJson } from '../validation/json-bounds.ts';

/**
 * Checks bodies, queries and path parameters against the schemas of their routes. An id that its schema refuses names no record: 404.
 * A schema is compiled at the first request to its route.
 *
 * @param shared schemas that bodies refer to by `$id`
 * @param models the names of the models of this installation
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
