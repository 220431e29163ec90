import { confirmByToken } from '../../use-cases/notifications/confirm-addresses.ts';
import type { Api, Reply, Request } from '../api.ts';

/** The page that a mail links to. A program that only follows links confirms nothing: the page has a button. */
const policy = [
  "default-src 'none'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** A sealed token has about 400 characters. */
const maxTokenLength = 2_000;

/** Where a recipient confirms that it wants notifications. Needs no key: the token in the address is one. */
export function confirmationRoutes(api: Api): void {
  api.register(async (scope: Api) => {
    // What a form without fields sends.
    scope.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string', bodyLimit: 1_024 },
      (_request, _body, done) => done(null, null),
    );
    scope.get(confirmationPath, { schema: { hide: true } }, async (request, reply) => {
      const isPlausible = tokenOf(request) !== null;
      if (!isPlausible) return sendPage(reply, 400, invalid);
      return sendPage(
        reply,
        200,
        'Should Sluice send notifications of data exports to your address?</p><form method="post"><button>Yes, send them</button></form><p>If you did not expect this, close the page: you get nothing more.',
      );
    });
    scope.post(confirmationPath, { schema: { hide: true } }, async (request, reply) => {
      const token = tokenOf(request);
      const isConfirmed = token !== null && (await confirmByToken(request.context, token));
      if (!isConfirmed) return sendPage(reply, 400, invalid);
      return sendPage(reply, 200, 'Thank you. From now on you get the notifications.');
    });
  });
}

/** Below the address of the page. */
export const confirmationPath = '/confirm-address';

const invalid =
  'This link is not valid, or no longer. Ask whose notifications you want to send the mail again.';

function tokenOf({ query }: Request): string | null {
  const { token } = query as { token?: unknown };
  if (typeof token !== 'string' || token.length > maxTokenLength) return null;
  return /^[\w-]{40,}$/.test(token) ? token : null;
}

function sendPage(reply: Reply, status: number, content: string) {
  return reply
    .code(status)
    .header('content-security-policy', policy)
    .header('referrer-policy', 'no-referrer')
    .header('cache-control', 'no-store')
    .type('text/html; charset=utf-8')
    .send(
      `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Sluice: confirm your address</title><h1>Sluice</h1><p>${content}</p></html>`,
    );
}
