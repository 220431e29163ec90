import { type ErrorCode, SluiceError } from '../../../foundation/domain/errors.ts';
import { oneLine } from '../../../foundation/domain/one-line.ts';
import { UnreadAnswer } from './error-answer.ts';
import { StalledError } from './stall-watch.ts';

/** Codes of S3, S3-compatible stores, STS and KMS. Prefixes and statuses follow below. */
const codes: Record<string, ErrorCode> = {
  AccessDenied: 'destination.access_denied',
  AccessDeniedException: 'destination.access_denied',
  AccountProblem: 'destination.access_denied',
  AllAccessDisabled: 'destination.access_denied',
  Forbidden: 'destination.access_denied',
  NotSignedUp: 'destination.access_denied',
  QuotaExceeded: 'destination.access_denied',
  CredentialsProviderError: 'destination.invalid_credentials',
  IncompleteSignature: 'destination.invalid_credentials',
  InvalidAccessKeyId: 'destination.invalid_credentials',
  InvalidClientTokenId: 'destination.invalid_credentials',
  InvalidSecurity: 'destination.invalid_credentials',
  InvalidToken: 'destination.invalid_credentials',
  SignatureDoesNotMatch: 'destination.invalid_credentials',
  UnrecognizedClientException: 'destination.invalid_credentials',
  ExpiredToken: 'destination.expired_credentials',
  ExpiredTokenException: 'destination.expired_credentials',
  TokenRefreshRequired: 'destination.expired_credentials',
  NoSuchBucket: 'destination.bucket_not_found',
  // Callers that ask for an object have handled its absence already.
  NotFound: 'destination.bucket_not_found',
  AuthorizationHeaderMalformed: 'destination.wrong_region',
  BucketRegionError: 'destination.wrong_region',
  IllegalLocationConstraintException: 'destination.wrong_region',
  IncorrectEndpoint: 'destination.wrong_region',
  InvalidRegion: 'destination.wrong_region',
  PermanentRedirect: 'destination.wrong_region',
  Redirect: 'destination.wrong_region',
  Throttling: 'destination.throttled',
  ThrottlingException: 'destination.throttled',
  RequestLimitExceeded: 'destination.throttled',
  SlowDown: 'destination.throttled',
  TooManyRequests: 'destination.throttled',
  'KMS.ThrottlingException': 'destination.throttled',
  'KMS.KMSInternalException': 'destination.unavailable',
  'KMS.DependencyTimeoutException': 'destination.unavailable',
  InternalError: 'destination.unavailable',
  OperationAborted: 'destination.unavailable',
  RequestTimeout: 'destination.unavailable',
  // The SDK has adopted the store's time by then and signs the next try with it.
  RequestTimeTooSkewed: 'destination.unavailable',
  ServiceUnavailable: 'destination.unavailable',
  // A new bucket whose name is not known everywhere yet.
  TemporaryRedirect: 'destination.unavailable',
  // Damaged in transit: the same bytes are sent again.
  BadDigest: 'destination.unavailable',
  IncompleteBody: 'destination.unavailable',
  XAmzContentChecksumMismatch: 'destination.unavailable',
  XAmzContentSHA256Mismatch: 'destination.unavailable',
  AbortError: 'destination.unavailable',
  ConditionalRequestConflict: 'destination.conflict',
  // An If-Match on an object that no longer exists.
  NoSuchKey: 'destination.conflict',
  PreconditionFailed: 'destination.conflict',
  InvalidPart: 'destination.upload_lost',
  NoSuchUpload: 'destination.upload_lost',
};

/**
 * For other codes in an error document that was read whole. With any other 4xx the store refuses the
 * request itself, so the config is wrong.
 */
const statuses: Record<number, ErrorCode> = {
  301: 'destination.wrong_region',
  302: 'destination.wrong_region',
  307: 'destination.unavailable',
  308: 'destination.wrong_region',
  401: 'destination.invalid_credentials',
  403: 'destination.access_denied',
  404: 'destination.bucket_not_found',
  408: 'destination.unavailable',
  409: 'destination.conflict',
  412: 'destination.conflict',
  425: 'destination.unavailable',
  429: 'destination.throttled',
  501: 'destination.invalid_config',
};

/** Node's codes of a certificate or protocol error that a person must fix. */
const tlsFaults = new Set([
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'CERT_REVOKED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_SSL_PACKET_LENGTH_TOO_LONG',
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/**
 * What a failure of a request means. It is final only if the store said so in an answer that was read
 * whole: a status alone may come from a proxy. A host name that does not resolve counts as transient,
 * because a resolver's outage looks the same; the destination's test shows it at once.
 *
 * @param secrets that no message may show, including the access key id
 */
export function toDestinationError(error: unknown, secrets: readonly string[]): SluiceError {
  if (error instanceof SluiceError) return error;
  if (error instanceof StalledError)
    return new SluiceError('destination.stalled', undefined, error);
  if (error instanceof UnreadAnswer) return unreadError(error);
  const facts = readFacts(error);
  if (facts === null) return new SluiceError('internal.unexpected', undefined, error);
  const code = findCode(facts);
  const detail = describe(code, facts, secrets);
  return new SluiceError(code, detail, new StoreError(facts, clean(facts.message, secrets)));
}

/** A refused condition is not final, so it needs no error document. */
function unreadError({ status, whole, message: said }: UnreadAnswer): SluiceError {
  const message = clean(said, []);
  const code =
    status === 429
      ? 'destination.throttled'
      : status === 412 && whole
        ? 'destination.conflict'
        : 'destination.unavailable';
  const facts = {
    ...{ name: 'UnreadAnswer', status, message },
    ...{ systemCode: undefined, region: undefined, requestId: undefined, saidByStore: false },
  };
  return new SluiceError(code, message, new StoreError(facts, message));
}

/**
 * The part of a failure that is kept as the cause. The SDK's own error contains the signed request and
 * sockets, which must not get into a log.
 */
export class StoreError extends Error {
  /** HTTP status; undefined if there was no answer. */
  readonly status: number | undefined;
  readonly systemCode: string | undefined;
  /** What the store's support asks for. */
  readonly requestId: string | undefined;

  constructor(facts: Facts, message: string) {
    super(message);
    this.name = facts.name;
    this.status = facts.status;
    this.systemCode = facts.systemCode;
    this.requestId = facts.requestId;
  }
}

function causeOf(error: unknown): StoreError | null {
  return error instanceof SluiceError && error.cause instanceof StoreError ? error.cause : null;
}

/** Whether a store refused because it does not support the request. */
export function isNotImplemented(error: unknown): boolean {
  const cause = causeOf(error);
  return cause?.status === 501 && cause.name !== 'UnreadAnswer';
}

/** Whether a store refused a conditional write because of a concurrent request at the same key. */
export function isCollision(error: unknown): boolean {
  return causeOf(error)?.status === 409;
}

/** Whether a store reported an internal error, in an answer that was read whole. */
export function isInternalError(error: unknown): boolean {
  const cause = causeOf(error);
  return cause?.status === 500 && cause.name !== 'UnreadAnswer';
}

interface Facts {
  /** The store's code, or the error's own name. */
  readonly name: string;
  /** Node's code of a failed connection. */
  readonly systemCode: string | undefined;
  readonly status: number | undefined;
  readonly message: string;
  readonly region: string | undefined;
  readonly requestId: string | undefined;
  /** Name and message are the store's words, not those of the SDK. */
  readonly saidByStore: boolean;
}

function readFacts(error: unknown): Facts | null {
  if (!(error instanceof Error)) return null;
  const raw = error as Error & {
    readonly code?: unknown;
    readonly Region?: unknown;
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
  const known = status !== undefined || systemCode !== undefined || codes[raw.name] !== undefined;
  if (!known) return null;
  const stated = raw.Region ?? raw.$response?.headers?.['x-amz-bucket-region'];
  const expecting = /expecting '([^']+)'/.exec(raw.message)?.[1];
  const region = typeof stated === 'string' ? stated : expecting;
  const { name, message } = raw;
  const requestId = raw.$metadata?.requestId;
  const saidByStore = raw.$fault !== undefined;
  return { name, systemCode, status, message, region, requestId, saidByStore };
}

function findCode({ name, systemCode, status, message, region }: Facts): ErrorCode {
  // Stores also answer this to a malformed access key; then no region is named.
  if (name === 'AuthorizationHeaderMalformed' && region === undefined) {
    return 'destination.invalid_credentials';
  }
  const aboutKey = name === 'AccessDenied' && /\bkms:/i.test(message);
  const listed = aboutKey ? undefined : codes[name];
  if (listed) return listed;
  if (aboutKey || name.startsWith('KMS.')) return 'destination.kms_denied';
  // If the connection broke within the answer, the status is not enough.
  if (status !== undefined && systemCode === undefined) {
    const byStatus = statuses[status];
    if (byStatus) return byStatus;
    // A success that could not be read was cut or damaged in transit.
    return status >= 500 || status < 400 ? 'destination.unavailable' : 'destination.invalid_config';
  }
  return systemCode !== undefined && tlsFaults.has(systemCode)
    ? 'destination.invalid_config'
    : 'destination.unavailable';
}

function describe(code: ErrorCode, facts: Facts, secrets: readonly string[]): string {
  const { name, systemCode, status, message, region, saidByStore } = facts;
  if (code === 'destination.wrong_region' && region !== undefined) {
    return clean(`the bucket is in ${region}`, secrets);
  }
  // A failed connection: the code is enough, and the message may name addresses.
  if (systemCode !== undefined) return clean(systemCode, secrets);
  if (!saidByStore) return unreadWords(code, status);
  const answered = status === undefined ? '' : `, HTTP ${status}`;
  const said = /unknown/i.test(message) || message === name ? '' : `: ${message}`;
  return clean(`${name}${answered}${said}`, secrets);
}

/** For errors of the SDK itself: its words are about its own code. */
function unreadWords(code: ErrorCode, status: number | undefined): string {
  if (code === 'destination.invalid_credentials') return 'no credentials were found';
  return status === undefined
    ? 'the request was given up'
    : `HTTP ${status}, with an answer that cannot be read`;
}

/** Whether a request failed before any answer: which host and port are there must not be shown. */
export function isUnreached(error: SluiceError): boolean {
  if (['destination.endpoint_forbidden', 'destination.stalled'].includes(error.code)) return true;
  const { cause } = error;
  const isUnavailable = error.code === 'destination.unavailable';
  return isUnavailable && cause instanceof StoreError && cause.status === undefined;
}

/** A store's text is not trusted: one line, limited in length, without credentials. */
function clean(text: string, secrets: readonly string[]): string {
  let result = text;
  for (const secret of secrets) {
    if (secret !== '') result = result.replaceAll(secret, '[hidden]');
  }
  return oneLine(
    result.replace(/\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b/g, '[hidden]'),
    300,
  ).trim();
}
