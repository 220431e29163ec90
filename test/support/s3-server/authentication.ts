import { S3Error } from './errors.ts';
import { parameter, type S3Request } from './request.ts';
import {
  type CanonicalParts,
  canonicalRequest,
  parseAmzDate,
  type Scope,
  sameSignature,
  scopeText,
  sign,
  signingKey,
  stringToSign,
} from './signature.ts';

export interface S3Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  /** Temporary credentials must send it as x-amz-security-token. */
  sessionToken?: string;
  /** Every request with these credentials is answered ExpiredToken. */
  expired?: boolean;
}

/** What the signature says about the body. */
export interface Authenticated {
  /** `x-amz-content-sha256`, or UNSIGNED-PAYLOAD for a presigned URL without it. */
  payloadHash: string;
}

interface Claim {
  accessKeyId: string;
  scope: Scope;
  signedHeaders: string[];
  signature: string;
  amzDate: string;
  token: string | undefined;
  payloadHash: string;
  presigned: boolean;
}

const maxSkewMs = 15 * 60_000;
const maxExpirySeconds = 7 * 24 * 3600;

function splitCredential(text: string): { accessKeyId: string; scope: Scope } | null {
  const pieces = text.split('/');
  const [date, region, service, end] = pieces.slice(-4);
  const accessKeyId = pieces.slice(0, -4).join('/');
  if (!accessKeyId || !date || !region || service !== 's3' || end !== 'aws4_request') return null;
  return { accessKeyId, scope: { date, region, service } };
}

function headerClaim(request: S3Request, authorization: string): Claim {
  const malformed = (message: string) => new S3Error('AuthorizationHeaderMalformed', { message });
  const [algorithm, rest = ''] = authorization.split(/ (.*)/s);
  if (algorithm !== 'AWS4-HMAC-SHA256') {
    throw new S3Error('InvalidRequest', {
      message:
        'The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.',
    });
  }
  const fields = new Map(
    rest.split(',').map((field): [string, string] => {
      const at = field.indexOf('=');
      return [field.slice(0, at).trim(), field.slice(at + 1).trim()];
    }),
  );
  const credential = splitCredential(fields.get('Credential') ?? '');
  const signedHeaders = fields.get('SignedHeaders');
  const signature = fields.get('Signature');
  if (!credential || !signedHeaders || !signature) {
    throw malformed('The authorization header is malformed.');
  }
  const payloadHash = request.headers['x-amz-content-sha256'];
  if (payloadHash === undefined) {
    throw new S3Error('InvalidRequest', {
      message: 'Missing required header for this request: x-amz-content-sha256',
    });
  }
  return {
    ...credential,
    signedHeaders: signedHeaders.split(';'),
    signature,
    amzDate: request.headers['x-amz-date'] ?? '',
    token: request.headers['x-amz-security-token'],
    payloadHash,
    presigned: false,
  };
}

function queryClaim(request: S3Request): Claim {
  const fail = (message: string) => new S3Error('AuthorizationQueryParametersError', { message });
  const credential = splitCredential(parameter(request, 'X-Amz-Credential') ?? '');
  const signedHeaders = parameter(request, 'X-Amz-SignedHeaders');
  const signature = parameter(request, 'X-Amz-Signature');
  const amzDate = parameter(request, 'X-Amz-Date');
  const expires = parameter(request, 'X-Amz-Expires');
  if (parameter(request, 'X-Amz-Algorithm') !== 'AWS4-HMAC-SHA256') {
    throw fail('X-Amz-Algorithm only supports "AWS4-HMAC-SHA256"');
  }
  if (!credential || !signedHeaders || !signature || !amzDate || !expires) {
    throw fail(
      'Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.',
    );
  }
  if (!/^\d+$/.test(expires) || Number(expires) < 1) throw fail('X-Amz-Expires must be positive');
  if (Number(expires) > maxExpirySeconds) {
    throw fail('X-Amz-Expires must be less than a week (in seconds) that is 604800');
  }
  const signedAt = parseAmzDate(amzDate);
  if (signedAt === null) {
    throw fail("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"");
  }
  if (signedAt - request.receivedAt > maxSkewMs) {
    throw new S3Error('AccessDenied', { message: 'Request is not yet valid' });
  }
  if (request.receivedAt > signedAt + Number(expires) * 1000) {
    throw new S3Error('AccessDenied', { message: 'Request has expired' });
  }
  return {
    ...credential,
    signedHeaders: signedHeaders.split(';'),
    signature,
    amzDate,
    token: parameter(request, 'X-Amz-Security-Token'),
    payloadHash:
      parameter(request, 'X-Amz-Content-Sha256') ??
      request.headers['x-amz-content-sha256'] ??
      'UNSIGNED-PAYLOAD',
    presigned: true,
  };
}

function checkScope(request: S3Request, claim: Claim, region: string): void {
  const code = claim.presigned
    ? 'AuthorizationQueryParametersError'
    : 'AuthorizationHeaderMalformed';
  if (claim.scope.region !== region) {
    throw new S3Error(code, {
      message: `The authorization header is malformed; the region '${claim.scope.region}' is wrong; expecting '${region}'`,
      details: { Region: region },
      headers: { 'x-amz-bucket-region': region },
    });
  }
  const signedAt = parseAmzDate(claim.amzDate);
  if (signedAt === null) {
    throw new S3Error('AccessDenied', {
      message: 'AWS authentication requires a valid Date or x-amz-date header',
    });
  }
  if (!claim.presigned && Math.abs(request.receivedAt - signedAt) > maxSkewMs) {
    throw new S3Error('RequestTimeTooSkewed', {
      details: { RequestTime: claim.amzDate, MaxAllowedSkewMilliseconds: String(maxSkewMs) },
    });
  }
  if (!claim.amzDate.startsWith(claim.scope.date)) {
    throw new S3Error(code, {
      message: `Invalid credential date "${claim.scope.date}". This date is not the same as X-Amz-Date: "${claim.amzDate.slice(0, 8)}".`,
    });
  }
}

/** `host` and every `x-amz-*` header that is sent must be signed. */
function checkSignedHeaders(request: S3Request, claim: Claim): void {
  const signed = new Set(claim.signedHeaders);
  const missing = Object.keys(request.headers).filter(
    (name) => (name === 'host' || name.startsWith('x-amz-')) && !signed.has(name),
  );
  // A presigned URL cannot sign the hash of a body that is not known yet.
  const unsigned = missing.filter((name) => !(claim.presigned && name === 'x-amz-content-sha256'));
  if (unsigned.length > 0) {
    throw new S3Error('AccessDenied', {
      message: 'There were headers present in the request which were not signed',
      details: { HeadersNotSigned: unsigned.join(', ') },
    });
  }
}

function checkToken(claim: Claim, credentials: S3Credentials): void {
  if (claim.token !== credentials.sessionToken) throw new S3Error('InvalidToken');
  if (credentials.expired) throw new S3Error('ExpiredToken');
}

/**
 * Believes a request or throws: AccessDenied, InvalidAccessKeyId, SignatureDoesNotMatch,
 * RequestTimeTooSkewed, InvalidToken, ExpiredToken, AuthorizationHeaderMalformed (wrong region) and
 * AuthorizationQueryParametersError, as S3 gives them.
 */
export function authenticate(
  request: S3Request,
  { credentials, region }: { credentials: readonly S3Credentials[]; region: string },
): Authenticated {
  const { authorization } = request.headers;
  const inQuery = parameter(request, 'X-Amz-Algorithm') !== undefined;
  if (authorization === undefined && !inQuery) throw new S3Error('AccessDenied');
  if (authorization !== undefined && inQuery) {
    throw new S3Error('InvalidArgument', {
      message:
        'Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string parameter or the Authorization header should be specified',
    });
  }
  const claim =
    authorization === undefined ? queryClaim(request) : headerClaim(request, authorization);
  const owner = credentials.find(({ accessKeyId }) => accessKeyId === claim.accessKeyId);
  if (!owner) {
    throw new S3Error('InvalidAccessKeyId', { details: { AWSAccessKeyId: claim.accessKeyId } });
  }
  checkScope(request, claim, region);
  checkSignedHeaders(request, claim);

  const parts: CanonicalParts = {
    ...request,
    query: request.query.filter(([name]) => name !== 'X-Amz-Signature'),
    signedHeaders: claim.signedHeaders,
    payloadHash: claim.payloadHash,
  };
  const canonical = canonicalRequest(parts);
  const text = stringToSign(claim.amzDate, claim.scope, canonical);
  const key = signingKey(owner.secretAccessKey, claim.scope);
  if (!sameSignature(sign(key, text), claim.signature)) {
    throw new S3Error('SignatureDoesNotMatch', {
      details: {
        AWSAccessKeyId: claim.accessKeyId,
        StringToSign: text,
        SignatureProvided: claim.signature,
        CanonicalRequest: canonical,
      },
    });
  }
  checkToken(claim, owner);
  return { payloadHash: claim.payloadHash };
}

/** For tests that must sign by themselves, rightly or wrongly. */
export function authorizationHeader(
  credentials: S3Credentials,
  scope: Scope,
  amzDate: string,
  parts: CanonicalParts,
): string {
  const key = signingKey(credentials.secretAccessKey, scope);
  const signature = sign(key, stringToSign(amzDate, scope, canonicalRequest(parts)));
  const credential = `${credentials.accessKeyId}/${scopeText(scope)}`;
  return `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${parts.signedHeaders.join(';')}, Signature=${signature}`;
}
