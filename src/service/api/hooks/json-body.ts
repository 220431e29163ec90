import { Refusal } from '../../../foundation/domain/problem.ts';
import type { Api, Request } from '../api.ts';
import { malformed } from '../api-error.ts';
import { refuseHostileText } from '../validation/hostile-text.ts';
import { refuseHostileJson } from '../validation/json-bounds.ts';

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
