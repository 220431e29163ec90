import { hideValues } from '../../../foundation/domain/hide-values.ts';
import { allows } from '../../../foundation/security/scopes.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import type { Api, Reply, Request } from '../api.ts';
import { ApiError, permissionDenied, refusalOf, sendError, whole } from '../errors.ts';
import { authenticate, type FailedKeys, onlyOperators } from './authentication.ts';
import type { TakeRequest } from './limits.ts';

export interface OperatorAccess {
  readonly db: Sql;
  readonly failures: FailedKeys;
  readonly takeRequest: TakeRequest;
  readonly publicUrl: string | null;
}

/**
 * Lets only operators in: an operator's key, as Bearer or, for browsers and scrapers, as the password of HTTP
 * Basic. It answers refusals itself: the error handler of a mounted plugin would make 500 of them.
 */
export function requireOperator(scope: Api, access: OperatorAccess): void {
  scope.addHook('onRequest', async (request, reply) => {
    try {
      await admit(request, reply, access);
    } catch (error) {
      return sendError(request, reply, refusalOf(error, request));
    }
  });
}

async function admit(request: Request, reply: Reply, access: OperatorAccess): Promise<void> {
  const { key, isBasic } = credentialsOf(request);
  if (key === null) throw challenge;
  const caller = await authenticate(access, request, key, null);
  await access.takeRequest(caller.id, reply);
  if (caller.organizationId !== null) throw onlyOperators();
  const needed = changes(request) ? 'operator:write' : 'operator:read';
  if (!allows(caller.scopes, needed)) {
    throw permissionDenied(`The API key lacks the scope ${needed}.`);
  }
  refuseForeignPages(request, isBasic, access.publicUrl);
  request.caller = caller;
}

const changes = ({ method }: Request): boolean => method !== 'GET' && method !== 'HEAD';

function credentialsOf(request: Request): { key: string | null; isBasic: boolean } {
  const { authorization = '' } = request.headers;
  const [, scheme = '', value = ''] = /^(Basic|Bearer) +(\S+) *$/i.exec(authorization) ?? [];
  if (scheme.toLowerCase() === 'bearer') return { key: value, isBasic: false };
  const [, password] = /^[^:]*:(.+)$/.exec(Buffer.from(value, 'base64').toString()) ?? [];
  return { key: password ?? null, isBasic: true };
}

/**
 * A browser sends Basic credentials by itself, so changes from pages of other sites are refused. Each
 * browser says where a change comes from, in Origin or in Sec-Fetch-Site.
 */
function refuseForeignPages(request: Request, isBasic: boolean, publicUrl: string | null): void {
  if (!changes(request)) return;
  const { origin, 'sec-fetch-site': site } = request.headers;
  if (origin === undefined && site === undefined && isBasic) {
    const remedy = 'Send the header Origin, or the key as Bearer.';
    throw permissionDenied(`The request does not say which site it comes from. ${remedy}`);
  }
  const isOwnSite = site === undefined || site === 'same-origin' || site === 'none';
  const ownUrls = [`http://${request.host}`, ...(publicUrl === null ? [] : [publicUrl])];
  const isOwnOrigin = origin === undefined || ownUrls.map(hostOf).includes(hostOf(origin));
  if (!isOwnSite || !isOwnOrigin) throw permissionDenied('The request comes from another site.');
}

/** `Origin: null` and other texts without a host are not ours. */
function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : 'none';
}

const challenge = new ApiError(
  401,
  whole(
    'not_authenticated',
    'Send the API key of an operator, as the password of HTTP Basic or as Bearer.',
  ),
  { 'www-authenticate': 'Basic realm="Sluice", charset="UTF-8"' },
);

/** Fields with the words of a source, a store or a plugin. */
const texts: ReadonlySet<string> = new Set([
  ...['detail', 'error', 'health_reason', 'latest_error', 'message', 'passed_over'],
  ...['paused_reason', 'stopped_reason', 'why'],
]);

/** Fields of a change with such words, or with the key of a file: a partition has values of rows. */
const hasValues: ReadonlySet<unknown> = new Set(['paused_reason', 'file']);

/** An operator's key sees how exports are, but no value of a row and no part of a secret. */
export function hideFromOperators(api: Api): void {
  api.addHook('preSerialization', async (request, reply, answer) =>
    request.caller?.organizationId === null && reply.statusCode < 400 ? hide(answer) : answer,
  );
}

function hide(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(hide);
  if (typeof value !== 'object' || value === null) return value;
  const { field } = value as { readonly field?: unknown };
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => {
      const isText = texts.has(name) || (hasValues.has(field) && name !== 'field');
      if (typeof inner === 'string' && isText) return [name, hideValues(inner)];
      // The end of a secret; the object that a run has sent last.
      const isHidden = name === 'ends_with' || (name === 'cursor' && 'records_completed' in value);
      return [name, isHidden ? null : hide(inner)];
    }),
  );
}
