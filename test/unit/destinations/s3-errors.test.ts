import { Readable } from 'node:stream';
import { describe, expect, it, test } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { type BodyErrors, collectBody } from '../../../src/rows/destinations/s3/answer.ts';
import {
  AnsweredError,
  findErrorCode,
  UnreadAnswer,
} from '../../../src/rows/destinations/s3/error-answer.ts';
import { isNotImplemented, toDestinationError } from '../../../src/rows/destinations/s3/errors.ts';
import { StalledError } from '../../../src/rows/destinations/s3/stall-watch.ts';
import {
  printXml,
  readShortXml,
  readXml,
  textsBelow,
} from '../../../src/rows/destinations/s3/xml.ts';
import { countLoopTurns } from '../../support/loop-turns.ts';

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
    ['Unknown', 403, 'access_denied'],
    ['InvalidAccessKeyId', 403, 'invalid_credentials'],
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
    ['KMS.NotFoundException', 400, 'kms_denied'],
    ['KMS.ThrottlingException', 400, 'throttled'],
    ['SlowDown', 503, 'throttled'],
    ['Unknown', 429, 'throttled'],
    ['InternalError', 500, 'unavailable'],
    ['RequestTimeout', 400, 'unavailable'],
    ['RequestTimeTooSkewed', 403, 'unavailable'],
    ['OperationAborted', 409, 'unavailable'],
    ['TemporaryRedirect', 307, 'wrong_region'],
    ['BadDigest', 400, 'unavailable'],
    ['XAmzContentSHA256Mismatch', 400, 'unavailable'],
    ['SyntaxError', 502, 'unavailable'],
    ['SyntaxError', 200, 'unavailable'],
    ['ConditionalRequestConflict', 409, 'conflict'],
    ['Unknown', 412, 'conflict'],
    ['NoSuchUpload', 404, 'upload_lost'],
    ['InvalidPart', 400, 'upload_lost'],
    ['EntityTooLarge', 400, 'invalid_config'],
    ['InvalidArgument', 400, 'invalid_config'],
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
    ['ENOTFOUND', 'unavailable'],
    ['HPE_INVALID_CONSTANT', 'unavailable'],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'certificate_refused'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'certificate_refused'],
    ['ERR_SSL_WRONG_VERSION_NUMBER', 'not_a_store'],
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

const document =
  '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code><Message>No &lt;such&gt; key.</Message><Key>a/b</Key></Error>';

describe('the code of an error document', () => {
  it.each([
    ['S3’s', document, 'NoSuchKey'],
    ['one with a namespace', '<Error xmlns="http://s3/"><Code>SlowDown</Code></Error>', 'SlowDown'],
    ['one with line feeds', '\ufeff<Error>\n  <Code>\n A\n</Code>\n</Error>\n', 'A'],
    ['one with empty elements', '<Error><Key/><Code>A</Code><x y="1"/></Error>', 'A'],
    ['one with prefixes', '<s3:Error xmlns:s3="http://s3/"><s3:Code>A</s3:Code></s3:Error>', 'A'],
    [
      'one with CDATA',
      '<Error><Code><![CDATA[A]]></Code><Message><![CDATA[<b>]]></Message></Error>',
      'A',
    ],
    [
      'one with a DOCTYPE',
      '<!DOCTYPE Error [<!ELEMENT Error ANY>]><Error><Code>A</Code></Error>',
      'A',
    ],
    [
      'STS’s',
      '<ErrorResponse xmlns="https://sts/"><Error><Type>Sender</Type><Code>AccessDenied</Code></Error><RequestId>1</RequestId></ErrorResponse>',
      'AccessDenied',
    ],
  ])('is found in %s', (_, text, code) => {
    expect(findErrorCode(text)).toBe(code);
  });

  it('is not found in any beginning of a document', () => {
    for (let length = 0; length < document.length; length += 1) {
      expect(findErrorCode(document.slice(0, length)), `${length} characters`).toBeNull();
    }
  });

  it.each([
    ['a page of a proxy', '<html><head><title>403</title></head><body>Forbidden</body></html>'],
    ['a page that is not XML', '<!doctype html><p>Bad gateway<br>'],
    ['plain text', 'upstream connect error'],
    ['JSON', '{"Error":{"Code":"AccessDenied"}}'],
    ['no code', '<Error><Message>m</Message></Error>'],
    ['an empty code', '<Error><Code> </Code></Error>'],
    ['a code elsewhere', '<Error><Detail><Code>AccessDenied</Code></Detail></Error>'],
    ['two documents', `${document}<Error><Code>A</Code></Error>`],
    ['elements that cross', '<Error><Code>A</Error></Code>'],
    ['text behind it', `${document} cut`],
    ['an entity that it declares', '<!DOCTYPE E [<!ENTITY a "A">]><Error><Code>&a;</Code></Error>'],
    ['a bare angle bracket', '<Error><Code>A</Code><Message>a < b</Message></Error>'],
  ])('is not found in %s', (_, text) => {
    expect(findErrorCode(text)).toBeNull();
  });

  it('is looked for in time that grows with the length alone', () => {
    for (const piece of ['<a ', '<!--', '<a>', '<Error>', '<?', '<a b="', '&lt;']) {
      expect(findErrorCode(piece.repeat(1_000_000 / piece.length))).toBeNull();
    }
  });
});

describe('an answer in XML', () => {
  it('gives the texts below its root, with their entities', () => {
    const xml =
      '<?xml version="1.0"?><A xmlns="x"><ETag>&quot;1-2&quot;</ETag><b><c>&#x41;&#66;&lt;&amp;lt;</c><d><e><f>deep</f></e></d></b></A>';
    const found = readShortXml(xml);
    expect(found?.name).toBe('A');
    const texts = found && textsBelow(found);
    expect(Object.fromEntries(texts ?? [])).toEqual({ ETag: '"1-2"', 'b/c': 'AB<&lt;' });
  });

  it('is printed so that it is read as the same', async () => {
    const xml =
      '<?xml version="1.0"?><!--c--><s:A xmlns:s="x" y="1">\n <s:k>a &amp; <![CDATA[<b>&]]> &#13;c</s:k><e/><k>&quot;ä\u{1f600}</k></s:A>';
    const found = await readXml(xml);
    const printed = found ? printXml(found) : '';
    expect(printed).toBe('<A><k>a &amp; &lt;b>&amp; &#13;c</k><e></e><k>"ä\u{1f600}</k></A>');
    expect(await readXml(printed)).toEqual(found);
  });

  it('leaves the process to others while it is read', async () => {
    const page = `<A>${'<Contents><Key>a&amp;b</Key><Size>1</Size></Contents>'.repeat(8_000)}${' '.repeat(5_000)}</A>`;
    const loop = countLoopTurns();
    expect((await readXml(page))?.children).toHaveLength(8_000);
    expect(loop.turns()).toBeGreaterThan(5);
    loop.stop();
  });

  it('becomes an error with its code, its words, its region and its status', () => {
    const xml =
      '<Error><Code>PermanentRedirect</Code><Message>Use &quot;b&quot;.</Message><Region>eu-central-1</Region></Error>';
    const error = new AnsweredError(301, { 'x-amz-request-id': 'r1' }, xml);
    const facts = toDestinationError(error);
    expect(facts).toMatchObject({
      code: 'destination.wrong_region',
      detail: expect.stringMatching(/The bucket is in eu-central-1\. Set region to it/),
      cause: { name: 'PermanentRedirect', status: 301, requestId: 'r1', message: 'Use "b".' },
    });
    // Where STS puts them.
    const nested = new AnsweredError(301, {}, `<ErrorResponse>${xml}</ErrorResponse>`);
    expect(toDestinationError(nested).detail).toBe(facts.detail);
  });
});

describe('an answer that says nothing', () => {
  it.each([
    [301, false, 'unavailable'],
    [304, true, 'unavailable'],
    [400, true, 'unavailable'],
    [401, true, 'unavailable'],
    [403, true, 'unavailable'],
    [404, true, 'unavailable'],
    [404, false, 'unavailable'],
    [412, true, 'conflict'],
    [412, false, 'unavailable'],
    [429, true, 'throttled'],
    [501, true, 'unavailable'],
    [502, true, 'unavailable'],
  ])('with status %i (whole: %s) is %s, which is tried again', (status, whole, code) => {
    const error = toDestinationError(new UnreadAnswer(status, 'without a body', whole));
    expect(error.code).toBe(`destination.${code}`);
    expect(error.spec.retryable).toBe(true);
    expect(error.detail).toBe(`HTTP ${status} without a body`);
    expect(isNotImplemented(error)).toBe(false);
  });

  it('is no more than a broken connection if that broke within it', () => {
    const broken = Object.assign(new Error('aborted'), {
      code: 'ECONNRESET',
      $response: { statusCode: 404 },
    });
    expect(toDestinationError(broken).code).toBe('destination.unavailable');
  });
});

const errors: BodyErrors = {
  tooLong: () => new Error('too long'),
  cutOff: (cause, bytes) => new Error(`${bytes} bytes, then ${(cause as Error).message}`),
};
const streamOf = (...chunks: readonly string[]) => Readable.from(chunks.map((c) => Buffer.from(c)));

test.each([
  ['', []],
  ['abc', ['a', 'b', 'c']],
  ['x'.repeat(9_001), ['x'.repeat(5_000), 'x', 'x'.repeat(4_000)]],
])('a body is the sum of its pieces', async (whole, chunks) => {
  expect((await collectBody(streamOf(...chunks), 10_000, errors)).toString()).toBe(whole);
});

test('a body that comes byte by byte is joined in few buffers', async () => {
  const body = Readable.from(Array.from({ length: 50_000 }, () => Buffer.from('x')));
  const joined = await collectBody(body, 50_000, errors);
  expect(joined.toString()).toBe('x'.repeat(50_000));
  expect(joined.buffer.byteLength).toBeLessThanOrEqual(2 * 50_000);
});

test('a body may have exactly the limit, and its stream ends if it has more', async () => {
  expect(await collectBody(streamOf('ab', 'c'), 3, errors)).toHaveLength(3);
  const body = streamOf('ab', 'cd');
  await expect(collectBody(body, 3, errors)).rejects.toThrow('too long');
  expect(body.destroyed).toBe(true);
});

test('a body that breaks off says after how many bytes', async () => {
  const body = Readable.from(
    (async function* () {
      yield Buffer.from('abc');
      throw new Error('a reset');
    })(),
  );
  await expect(collectBody(body, 10, errors)).rejects.toThrow('3 bytes, then a reset');
});
