import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { SluiceError } from '../../../foundation/domain/errors.ts';

/**
 * Recognises answers that no S3 store gives: pages of proxies, portals, consoles and gateways. Tried again, they come again,
 * so an attempt that meets them ends at once. Pages of 5xx and 429 are of a store, or a proxy, that is busy: those pass.
 */

export interface Stranger {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly hostname: string;
  readonly plainHttp: boolean;
  readonly sentBytes: number;
}

/** Evidence in an answer and its request of who gave the answer. */
export function strangerOf(
  { statusCode = 0, headers }: Pick<IncomingMessage, 'statusCode' | 'headers'>,
  { protocol, hostname, body: sent = '' }: Asked,
  body: string,
): Stranger {
  const [plainHttp, sentBytes] = [protocol === 'http:', Buffer.byteLength(sent)];
  const start = body.slice(0, longestBody);
  return { status: statusCode, headers, body: start, hostname, plainHttp, sentBytes };
}

export interface Asked {
  readonly protocol: string;
  readonly hostname: string;
  readonly body?: Uint8Array | string;
}

/** Characters of a body that are looked at: a page says early what it is. */
const longestBody = 16 * 1024;

/** The error's text: the recognised program, and the remedy. Null: it may be a store's. */
export function recogniseStranger(answer: Stranger): string | null {
  const { status, body } = answer;
  // Some stores send a 404 without a body for a missing object.
  if (mayPass(status) || (status === 404 && body === '')) return null;
  const advice = rules.find(({ when }) => when(answer))?.advice;
  // Another address of the store, which `refusals.ts` knows.
  if (status >= 300 && status < 400 && !advice) return null;
  return `HTTP ${status} with ${describeBody(answer)}. ${advice?.(answer) ?? usualAdvice}`;
}

export const notAStore = (detail: string): SluiceError =>
  new SluiceError('destination.not_a_store', detail);

/** Says whether an answer may be another one soon. 511 is the status of captive portals. */
export const mayPass = (status: number): boolean =>
  (status >= 500 && status !== 511) || [408, 412, 425, 429].includes(status);

interface Rule {
  readonly when: (answer: Stranger) => boolean;
  readonly advice: (answer: Stranger) => string;
}

const plainToTls =
  /plain HTTP request was sent to HTTPS|HTTP request to an HTTPS|plain HTTP to an SSL/i;
const loginWords =
  /type\s*=\s*["']?password|log[ -]?in\b|sign[ -]?in\b|single sign|captive portal|\bsso\b/i;
const loginPath = /\/(?:login|log-in|signin|sign-in|sso|oauth2?|saml|auth|authorize|portal)\b/i;

const locationOf = ({ headers }: Stranger): string => (headers.location ?? '').slice(0, 200);

/** The first that fits says what to change. */
const rules: readonly Rule[] = [
  {
    when: ({ status }) => status === 407,
    advice: () =>
      'A proxy asks for its credentials. If endpoint_url is the address of a proxy, set it to the address of the store. Otherwise ask your operator to add the credentials to HTTP_PROXY or HTTPS_PROXY.',
  },
  {
    when: ({ status }) => status === 413,
    advice: ({ sentBytes }) =>
      `A proxy or gateway before the store limits the size of a request, and this one has ${sentBytes} bytes. Raise that limit (client_max_body_size in nginx), or set endpoint_url to an address without it.`,
  },
  {
    when: ({ body }) => plainToTls.test(body),
    advice: () => 'The port speaks TLS. Set endpoint_url to an address that begins with https://.',
  },
  {
    when: (answer) => answer.status === 511 || isLogin(answer),
    advice: (answer) =>
      `A login page or portal answers${isRedirect(answer) ? `, at ${locationOf(answer)}` : ''}. Set endpoint_url to the address at which the store speaks S3, or have Sluice exempted from the login.`,
  },
  {
    when: (answer) => answer.plainHttp && leadsTo(answer, 'https:'),
    advice: (answer) =>
      `It redirects to ${locationOf(answer)}. Set endpoint_url to an address that begins with https://.`,
  },
  {
    when: ({ status }) => status === 405,
    advice: () =>
      'What answers does not take the requests of S3. endpoint_url may be the address of a console or website of the store: set it to the address at which the store speaks S3.',
  },
];

export const usualAdvice =
  'Set endpoint_url to the address at which the store speaks S3, or change the proxy or gateway that answers in its place.';

/** Says whether an answer sends its client to the same host, by another protocol. */
function leadsTo(answer: Stranger, protocol: string): boolean {
  const location = locationOf(answer);
  if (!URL.canParse(location)) return false;
  const target = new URL(location);
  return target.protocol === protocol && target.hostname === answer.hostname;
}

const isRedirect = (answer: Stranger): boolean => locationOf(answer) !== '';

const isLogin = (answer: Stranger): boolean =>
  loginPath.test(locationOf(answer)) || (isPage(answer) && loginWords.test(answer.body));

const typeOf = ({ headers }: Stranger): string => headers['content-type']?.split(';')[0] ?? '';

const isPage = (answer: Stranger): boolean =>
  /html/i.test(typeOf(answer)) || /^\s*<(?:!doctype\s+html|html)\b/i.test(answer.body);

const isJson = (answer: Stranger): boolean =>
  /\bjson\b/i.test(typeOf(answer)) || /^\s*[[{]/.test(answer.body);

/** Says whether the body of a success, which is no well-formed XML, is no S3 store's. A store's may have been cut off. */
export const isForeignBody = (answer: Stranger): boolean =>
  isPage(answer) || !/^[\s\uFEFF]*</.test(answer.body);

function describeBody(answer: Stranger): string {
  if (answer.body === '') return 'no body';
  if (isPage(answer)) return 'a page of HTML';
  if (isJson(answer)) return 'JSON, as an API gateway sends it';
  return `a body (${typeOf(answer) || 'no content type'}) that is no answer of S3`;
}
