import { type ErrorCode, SluiceError } from '../../../foundation/domain/errors.ts';
import { oneLine } from '../../../foundation/domain/one-line.ts';
import { UnreadAnswer } from './error-answer.ts';
import {
  isKnownCode,
  isPartOfUpload,
  judgeRefusal,
  redirects,
  type StoreRefusal,
  type Verdict,
} from './refusals.ts';
import { StalledError } from './stall-watch.ts';

/** Node's codes of a certificate or protocol error that a person must fix. */
const tlsFaults = `CERT_HAS_EXPIRED CERT_NOT_YET_VALID CERT_REVOKED DEPTH_ZERO_SELF_SIGNED_CERT
  ERR_TLS_CERT_ALTNAME_INVALID SELF_SIGNED_CERT_IN_CHAIN UNABLE_TO_GET_ISSUER_CERT
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY UNABLE_TO_VERIFY_LEAF_SIGNATURE`.split(/\s+/);

/**
 * Translates a failure of a request. It is final only if the store said so in an answer that was read
 * whole: a status alone may come from a proxy. A host name that does not resolve counts as transient,
 * because a resolver's outage looks the same; the destination's test shows it at once.
 *
 * @param hidden what no message may show
 */
export function toDestinationError(error: unknown, hidden: Hidden = nothingHidden): SluiceError {
  if (error instanceof SluiceError) return error;
  if (error instanceof StalledError)
    return new SluiceError('destination.stalled', undefined, error);
  if (error instanceof UnreadAnswer) return unreadError(error);
  const facts = readFacts(error);
  if (facts === null) return new SluiceError('internal.unexpected', undefined, error);
  const verdict = judge(facts);
  const detail = withKey(verdict.code, describe(verdict, facts, hidden), hidden);
  return new SluiceError(verdict.code, detail, new StoreError(facts, clean(facts.message, hidden)));
}

/** A refused condition is not final, so it needs no error document. A redirect never ends by itself. */
function unreadError(unread: UnreadAnswer): SluiceError {
  const { status, whole } = unread;
  const { operation = null, region, location } = unread.facts;
  const message = clean(unread.message, nothingHidden);
  const { stranger = null } = unread.facts;
  const facts: Facts = {
    ...{ name: 'UnreadAnswer', status, message, operation, region, location },
    ...{ systemCode: undefined, requestId: undefined, saidByStore: false },
  };
  const cause = new StoreError(facts, message);
  if (stranger) {
    const advice = clean(stranger, nothingHidden, longestAdvice);
    return new SluiceError('destination.not_a_store', advice, cause);
  }
  if (redirects.has(status) && whole) {
    const { code, advice = '' } = judgeRefusal(facts) ?? { code: 'destination.wrong_region' };
    return new SluiceError(code, clean(`${message}. ${advice}`, nothingHidden), cause);
  }
  const code =
    status === 429
      ? 'destination.throttled'
      : status === 412 && whole
        ? 'destination.conflict'
        : 'destination.unavailable';
  return new SluiceError(code, message, cause);
}

/** The cause that is kept. The SDK's own error contains the signed request and sockets, which must not get into a log. */
export class StoreError extends Error {
  readonly status: number | undefined;
  readonly systemCode: string | undefined;
  /** The store's support asks for it. */
  readonly requestId: string | undefined;
  readonly operation: string | null;

  constructor(facts: Facts, message: string) {
    super(message);
    this.name = facts.name;
    this.status = facts.status;
    this.systemCode = facts.systemCode;
    this.requestId = facts.requestId;
    this.operation = facts.operation;
  }
}

export function codeOf(error: unknown): ErrorCode | null {
  return error instanceof SluiceError ? error.code : null;
}

function causeOf(error: unknown): StoreError | null {
  return error instanceof SluiceError && error.cause instanceof StoreError ? error.cause : null;
}

/** Says whether a store refused because it does not support the request. */
export function isNotImplemented(error: unknown): boolean {
  const cause = causeOf(error);
  return cause?.status === 501 && cause.name !== 'UnreadAnswer';
}

/** Says whether the parts of an upload were denied, though a put in one request may be allowed. */
export function isDeniedUpload(error: unknown): boolean {
  if (!(error instanceof SluiceError) || error.code !== 'destination.access_denied') return false;
  return isPartOfUpload(causeOf(error)?.operation ?? null);
}

/** Says whether a store has no such request, whatever it answers to it. */
export function isUnsupported(error: unknown): boolean {
  const { status = 0, name } = causeOf(error) ?? {};
  if (!(error instanceof SluiceError) || error.code !== 'destination.invalid_config') return false;
  return [400, 405, 501].includes(status) && name !== 'UnreadAnswer';
}

/** Says whether a store refused a request because of its checksum. */
export function refusesChecksums(error: unknown): boolean {
  if (!(error instanceof SluiceError)) return false;
  return isNotImplemented(error) || /checksum|content-md5/i.test(error.detail ?? '');
}

/** Says whether a store refused a conditional write because of a concurrent request at the same key. */
export function isCollision(error: unknown): boolean {
  return causeOf(error)?.status === 409;
}

/** Says whether a store reported an internal error, in an answer that was read whole. */
export function isInternalError(error: unknown): boolean {
  const cause = causeOf(error);
  return cause?.status === 500 && cause.name !== 'UnreadAnswer';
}

/** The number of parts that a store allows, if it refused a part for its number; null if it is not about that. */
export function allowedParts(error: SluiceError, number: number): number | null {
  if (error.code !== 'destination.invalid_parts') return null;
  const said = /between 1 and ([\d,]+)/i.exec(error.detail ?? '')?.[1]?.replaceAll(',', '');
  const most = said === undefined ? number - 1 : Number(said);
  return most > 0 && most < number ? most : null;
}

/** `name` is the store's code, or the error's own name. */
interface Facts extends StoreRefusal {
  readonly systemCode: string | undefined;
  readonly requestId: string | undefined;
  /** Name and message are the store's words, not those of the SDK. */
  readonly saidByStore: boolean;
}

function readFacts(error: unknown): Facts | null {
  if (!(error instanceof Error)) return null;
  const raw = error as Error & {
    readonly code?: unknown;
    readonly Region?: unknown;
    readonly Endpoint?: unknown;
    readonly operation?: unknown;
    /** Only on errors that the SDK read from an error document. */
    readonly $fault?: unknown;
    readonly $metadata?: { readonly httpStatusCode?: number; readonly requestId?: string };
    readonly $response?: {
      readonly statusCode?: number;
      readonly headers?: Record<string, string>;
    };
  };
  const status = raw.$metadata?.httpStatusCode ?? raw.$response?.statusCode;
  const systemCode = typeof raw.code === 'string' ? raw.code : undefined;
  const isRecognised = status !== undefined || systemCode !== undefined || isKnownCode(raw.name);
  if (!isRecognised) return null;
  const { name, message } = raw;
  const headers = raw.$response?.headers;
  const stated = raw.Region ?? headers?.['x-amz-bucket-region'];
  const expecting = /\bregion\b.*expecting '([^']+)'/.exec(message)?.[1];
  const region = textOf(stated) ?? expecting;
  const location = textOf(headers?.location ?? raw.Endpoint);
  const operation = textOf(raw.operation) ?? null;
  const requestId = raw.$metadata?.requestId;
  const saidByStore = raw.$fault !== undefined;
  const where = { operation, region, location };
  return { name, systemCode, status, message, requestId, saidByStore, ...where };
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** If the connection broke within the answer, the status is not enough. */
function judge(facts: Facts): Verdict {
  const { systemCode } = facts;
  if (isPlainPort(facts)) return { code: 'destination.not_a_store', advice: plainPort };
  const said = systemCode === undefined ? facts : { ...facts, status: undefined };
  const verdict = judgeRefusal(said);
  if (verdict) return verdict;
  if (systemCode === undefined || !tlsFaults.includes(systemCode)) {
    return { code: 'destination.unavailable' };
  }
  return { code: 'destination.certificate_refused' };
}

/** The answer of a server without TLS is no record of TLS. */
const isPlainPort = ({ systemCode = '', message }: Facts): boolean =>
  /^ERR_SSL_(?:WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST)$/.test(systemCode) ||
  (systemCode === 'EPROTO' && /wrong version number|packet length too long/i.test(message));

const plainPort =
  'The port does not speak TLS. Set endpoint_url to the port of the store that does, or to an address that begins with http://';

function describe({ code, advice }: Verdict, facts: Facts, hidden: Hidden): string {
  const { name, systemCode, status, message, saidByStore } = facts;
  const withAdvice = (text: string) => {
    const said = clean(text, hidden);
    return advice === undefined ? said : `${said}. ${clean(advice, hidden)}`;
  };
  // A failed connection: the code is enough, and the message may name addresses.
  if (systemCode !== undefined) return withAdvice(systemCode);
  if (!saidByStore) return unreadWords(code, status);
  const answered = status === undefined ? '' : `, HTTP ${status}`;
  const said = /unknown/i.test(message) || message === name ? '' : `: ${message}`;
  return withAdvice(`${name}${answered}${said}`);
}

/** For errors of the SDK itself: its words are about its own code. */
function unreadWords(code: ErrorCode, status: number | undefined): string {
  if (code === 'destination.invalid_credentials') return 'no credentials were found';
  return status === undefined
    ? 'the request was given up'
    : `HTTP ${status}, with an answer that cannot be read`;
}

/** Says whether a request failed before any answer: which host and port are there must not be shown. */
export function isUnreached(error: SluiceError): boolean {
  if (['destination.endpoint_forbidden', 'destination.stalled'].includes(error.code)) return true;
  const { cause } = error;
  const isUnavailable = error.code === 'destination.unavailable';
  return isUnavailable && cause instanceof StoreError && cause.status === undefined;
}

export interface Hidden {
  /** The id of the access key; null: none. Its end is shown. */
  readonly keyId: string | null;
  /** The secret of the key, and those that are issued for a role. */
  readonly secrets: readonly string[];
}

const nothingHidden: Hidden = { keyId: null, secrets: [] };

/** A shorter value would also hide ordinary words. No store issues such keys. */
const shortestHidden = 8;

const isHidden = (text: string): boolean => text.length >= shortestHidden;

/** `…MPLE`: enough to see which of a person's keys it is. */
const endOf = (keyId: string): string => `…${keyId.slice(-4)}`;

const aboutKeys: ReadonlySet<ErrorCode> = new Set([
  'destination.access_denied',
  'destination.expired_credentials',
  'destination.invalid_credentials',
]);

/** Says which key was used, if the store refused it. */
function withKey(code: ErrorCode, detail: string, { keyId }: Hidden): string {
  if (!aboutKeys.has(code) || keyId === null || !isHidden(keyId)) return detail;
  const end = endOf(keyId);
  return detail.includes(end) ? detail : `${detail.replace(/\.$/, '')}; access key ${end}`;
}

/** The recognised program, an address of the store, and our own words. */
const longestAdvice = 600;

/** A store's text is not trusted: one line, limited in length, without credentials. */
function clean(text: string, { keyId, secrets }: Hidden, longest = 300): string {
  let result = text;
  for (const secret of secrets) {
    if (isHidden(secret)) result = result.replaceAll(secret, '[hidden]');
  }
  if (keyId !== null && isHidden(keyId)) result = result.replaceAll(keyId, endOf(keyId));
  const shown = result.replace(/\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b/g, endOf);
  return oneLine(shown, longest).trim();
}
