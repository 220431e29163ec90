import { describe, expect, it } from 'vitest';
import { isNotImplemented, toDestinationError } from '../../../src/rows/destinations/s3/errors.ts';
import { StalledError } from '../../../src/rows/destinations/s3/stall-watch.ts';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';

/** An error as the SDK throws it for an answer of the store. */
function answer(name: string, status: number, extra: Record<string, unknown> = {}): Error {
  const { message = name, ...rest } = extra;
  return Object.assign(new Error(String(message)), {
    name,
    $fault: 'client',
    $metadata: { httpStatusCode: status },
    ...rest,
  });
}

const system = (code: string) => Object.assign(new Error(`failed at 10.1.2.3: ${code}`), { code });

describe('what an answer of the store means', () => {
  it.each([
    ['AccessDenied', 403, 'access_denied'],
    ['AllAccessDisabled', 403, 'access_denied'],
    ['Unknown', 403, 'access_denied'],
    ['InvalidAccessKeyId', 403, 'invalid_credentials'],
    ['SignatureDoesNotMatch', 403, 'invalid_credentials'],
    ['InvalidToken', 400, 'invalid_credentials'],
    ['InvalidClientTokenId', 403, 'invalid_credentials'],
    ['Unknown', 401, 'invalid_credentials'],
    ['ExpiredToken', 400, 'expired_credentials'],
    ['ExpiredTokenException', 403, 'expired_credentials'],
    ['NoSuchBucket', 404, 'bucket_not_found'],
    ['NotFound', 404, 'bucket_not_found'],
    ['PermanentRedirect', 301, 'wrong_region'],
    ['Unknown', 301, 'wrong_region'],
    ['IllegalLocationConstraintException', 400, 'wrong_region'],
    ['KMS.DisabledException', 400, 'kms_denied'],
    ['KMS.NotFoundException', 400, 'kms_denied'],
    ['KMS.ThrottlingException', 400, 'throttled'],
    ['SlowDown', 503, 'throttled'],
    ['TooManyRequests', 429, 'throttled'],
    ['Unknown', 429, 'throttled'],
    ['InternalError', 500, 'unavailable'],
    ['ServiceUnavailable', 503, 'unavailable'],
    ['RequestTimeout', 400, 'unavailable'],
    ['RequestTimeTooSkewed', 403, 'unavailable'],
    ['OperationAborted', 409, 'unavailable'],
    ['TemporaryRedirect', 307, 'wrong_region'],
    ['BadDigest', 400, 'unavailable'],
    ['XAmzContentSHA256Mismatch', 400, 'unavailable'],
    ['SyntaxError', 502, 'unavailable'],
    ['SyntaxError', 200, 'unavailable'],
    ['PreconditionFailed', 412, 'conflict'],
    ['ConditionalRequestConflict', 409, 'conflict'],
    ['Unknown', 412, 'conflict'],
    ['NoSuchUpload', 404, 'upload_lost'],
    ['InvalidPart', 400, 'upload_lost'],
    ['EntityTooLarge', 400, 'invalid_config'],
    ['InvalidArgument', 400, 'invalid_config'],
    ['KeyTooLongError', 400, 'invalid_config'],
    ['NotImplemented', 501, 'invalid_config'],
  ])('%s with %i is %s', (name, status, code) => {
    expect(toDestinationError(answer(name, status)).code).toBe(`destination.${code}`);
  });

  it('is about the key if access to KMS is denied', () => {
    const message = 'User x is not authorized to perform: kms:GenerateDataKey on resource y';
    const error = toDestinationError(answer('AccessDenied', 403, { message }));
    expect(error.code).toBe('destination.kms_denied');
    expect(error.detail).toContain('kms:GenerateDataKey');
  });

  it.each([
    answer('AuthorizationHeaderMalformed', 400, {
      message: "the region 'us-east-1' is wrong; expecting 'eu-west-1'",
    }),
    answer('AuthorizationHeaderMalformed', 400, { Region: 'eu-west-1' }),
    answer('PermanentRedirect', 301, {
      $response: { statusCode: 301, headers: { 'x-amz-bucket-region': 'eu-west-1' } },
    }),
  ])('names the right region', (error) => {
    const found = toDestinationError(error);
    expect(found.code).toBe('destination.wrong_region');
    expect(found.detail).toMatch(/\. The bucket is in eu-west-1\. Set region to it\.$/);
  });

  it('is about the credentials if a malformed header names no region', () => {
    const error = answer('AuthorizationHeaderMalformed', 400, {
      message: 'Credential is malformed',
    });
    expect(toDestinationError(error).code).toBe('destination.invalid_credentials');
  });
});

describe('what a failed connection means', () => {
  it.each([
    ['ECONNRESET', 'unavailable'],
    ['ECONNREFUSED', 'unavailable'],
    ['EPIPE', 'unavailable'],
    ['ETIMEDOUT', 'unavailable'],
    ['ENOTFOUND', 'unavailable'],
    ['EAI_AGAIN', 'unavailable'],
    ['HPE_INVALID_CONSTANT', 'unavailable'],
    ['CERT_HAS_EXPIRED', 'certificate_refused'],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'certificate_refused'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'certificate_refused'],
    ['ERR_SSL_WRONG_VERSION_NUMBER', 'not_a_store'],
    ['ERR_SSL_PACKET_LENGTH_TOO_LONG', 'not_a_store'],
  ])('%s is %s, and no address is shown', (code, expected) => {
    const error = toDestinationError(system(code));
    expect(error.code).toBe(`destination.${expected}`);
    expect(error.detail?.split('.')[0]).toBe(code);
    if (/SELF_SIGNED/.test(code)) expect(error.spec.remedy).toContain('NODE_EXTRA_CA_CERTS');
    expect(error.detail).not.toContain('10.1.2.3');
  });

  it('knows a stall, keeps what is known, and takes a bug for a bug', () => {
    expect(toDestinationError(new StalledError()).code).toBe('destination.stalled');
    const known = new SluiceError('destination.endpoint_forbidden');
    expect(toDestinationError(known)).toBe(known);
    expect(toDestinationError(new TypeError('x')).code).toBe('internal.unexpected');
    expect(toDestinationError('x').code).toBe('internal.unexpected');
  });
});

describe('the text of an error', () => {
  it('never shows a secret, and of the access key only its end', () => {
    const hidden = { keyId: 'MINIOKEY', secrets: ['word/with+signs'] };
    const message = 'MINIOKEY AKIAIOSFODNN7EXAMPLE ASIAIOSFODNN7EXAMPLF word/with+signs';
    const { detail } = toDestinationError(answer('InvalidAccessKeyId', 403, { message }), hidden);
    expect(detail).toBe('InvalidAccessKeyId, HTTP 403: …OKEY …MPLE …MPLF [hidden]');
  });

  it('keeps ordinary words, whatever the credentials are', () => {
    const hidden = { keyId: 'k', secrets: ['buck', 'et'] };
    const message = 'The specified bucket does not exist';
    const { detail } = toDestinationError(answer('NoSuchBucket', 404, { message }), hidden);
    expect(detail).toBe('NoSuchBucket, HTTP 404: The specified bucket does not exist');
  });

  it.each(['AccessDenied', 'SignatureDoesNotMatch', 'ExpiredToken'])(
    'says with %s which key was used',
    (name) => {
      const hidden = { keyId: 'AKIAIOSFODNN7EXAMPLE', secrets: [] };
      const { detail } = toDestinationError(answer(name, 403, { message: 'No.' }), hidden);
      expect(detail).toBe(`${name}, HTTP 403: No; access key …MPLE`);
    },
  );

  it('is one line of bounded length, whatever the store says', () => {
    const message = `a\r\nb\u0000c\u202e${'x'.repeat(10_000)}`;
    const { detail = '' } = toDestinationError(answer('AccessDenied', 403, { message }));
    expect(detail).toMatch(/^AccessDenied, HTTP 403: a b c x+$/);
    expect(detail.length).toBeLessThanOrEqual(300);
  });
});

it('keeps nothing of the request and its headers, and what the support of the store asks for', () => {
  const error = answer('InternalError', 500, {
    $metadata: { httpStatusCode: 500, requestId: 'REQ1' },
    $response: { statusCode: 500, headers: {}, body: { authorization: 'AKIAIOSFODNN7EXAMPLE' } },
  });
  const { cause } = toDestinationError(error);
  expect(cause).toMatchObject({ name: 'InternalError', status: 500, requestId: 'REQ1' });
  const kept = Object.values({ ...(cause as object) });
  expect(kept.filter((value) => typeof value === 'object' && value !== null)).toEqual([]);
});

it('knows a store that does not know a request', () => {
  const translate = (name: string, status: number) => toDestinationError(answer(name, status));
  expect(isNotImplemented(translate('NotImplemented', 501))).toBe(true);
  expect(isNotImplemented(translate('Unknown', 501))).toBe(true);
  expect(isNotImplemented(translate('AccessDenied', 403))).toBe(false);
});
