import { createHash } from 'node:crypto';
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand } from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { expect, test } from 'vitest';
import { abort, begin, complete, fiveMiB, said, sendPart, tagOf } from '../stores/facts/asking.ts';
import { measureFacts } from '../stores/facts.ts';
import { startS3Server } from '../support/s3-server/server.ts';
import { useStage } from '../support/use-stage.ts';
import { openSubject, type Subject } from './s3-protocol-subject.ts';

const put = ({ s3, bucket }: Subject, key: string, body = 'here') =>
  s3.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: body }));

async function textOf({ s3, bucket }: Subject, key: string): Promise<string | undefined> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket: bucket, Key: key }));
  return Body?.transformToString();
}

/** Presigned for the bucket's `key` by the official presigner. */
const presign = (subject: Subject, key: string, expiresIn = 60, signingDate?: Date) =>
  getSignedUrl(subject.s3, new GetObjectCommand({ Bucket: subject.bucket, Key: key }), {
    expiresIn,
    ...(signingDate ? { signingDate } : {}),
  });

async function codeOf(response: Response): Promise<string | undefined> {
  return /<Code>([^<]*)</.exec(await response.text())?.[1];
}

/** All pages of a listing, as the keys of each. */
async function pages({ s3, bucket }: Subject, input: object): Promise<string[][]> {
  const found: string[][] = [];
  let token: string | undefined;
  do {
    const asked = { Bucket: bucket, ...input, ContinuationToken: token };
    const page = await s3.send(new ListObjectsV2Command(asked));
    found.push((page.Contents ?? []).map(({ Key = '' }) => Key));
    token = page.NextContinuationToken;
    expect(page.IsTruncated).toBe(token !== undefined);
  } while (token !== undefined);
  return found;
}

const md5 = (data: Buffer | string): Buffer => createHash('md5').update(data).digest();

/** Sends parts of these numbers. @returns what completes the upload with the parts that it is given */
async function upload(
  subject: Subject,
  key: string,
  parts: readonly (readonly [number, Buffer | string])[],
) {
  const { id } = await begin(subject, key);
  const sent: { tag: string; number: number }[] = [];
  for (const [number, body] of parts) {
    const answer = await sendPart(subject, key, id, number, body);
    sent.push({ tag: tagOf(answer), number });
  }
  return {
    sent,
    complete: (...given: typeof sent) => complete(subject, key, id, given).then(said),
    end: () => abort(subject, key, id),
  };
}

/** What Amazon S3 answers to the questions that `facts.ts` asks of foreign stores. */
const foreignAnswers = {
  'Abort of an unknown upload / of one aborted before': '404 NoSuchUpload / 404 NoSuchUpload',
  'After an abort: ListParts / UploadPart / Complete':
    '404 NoSuchUpload / 404 NoSuchUpload / 404 NoSuchUpload',
  'Body of a 404 / of a 412 on a PUT':
    'application/xml: Code Message Key Resource RequestId HostId / application/xml: Code Message Condition Resource RequestId HostId',
  'Body that does not match x-amz-content-sha256: PUT / UploadPart':
    '400 XAmzContentSHA256Mismatch / 400 XAmzContentSHA256Mismatch',
  'Complete and abort at once, up to fifty times': 'one succeeds',
  'Complete sent again / abort after it / ListParts after it':
    '200 / 404 NoSuchUpload / 404 NoSuchUpload',
  'Complete whose parts have another tag / no quotes': '400 InvalidPart / 200',
  'Complete whose parts name a ChecksumCRC32': '200, 5 of 5 bytes',
  'Complete, If-Match: "right tag"': '200',
  'Complete, If-Match: "wrong tag"': '412 PreconditionFailed',
  'Complete, If-Match: right tag, no quotes': '200',
  'Complete, If-Match: wrong tag, no quotes': '412 PreconditionFailed',
  'Complete, If-None-Match: *, four at once, ten times': 'one succeeds',
  'Complete, If-None-Match: *, nothing there': '200',
  'Complete, If-None-Match: *, object there': '412 PreconditionFailed',
  'Create with x-amz-checksum-algorithm: CRC32': '200, echoed',
  'DELETE of a missing object': '204',
  'GET of a missing object / of a missing bucket': '404 NoSuchKey / 404 NoSuchBucket',
  'GET, If-Match: "right tag" / no quotes': '200 / 200',
  'HEAD of a missing object / of a missing bucket': '404, no body / 404, no body',
  'Keys with odd characters, put and listed': 'all kept, listed',
  ListMultipartUploads: '200, by prefix, time, pages',
  ListParts: '200, tag as sent, size, pages',
  'ListParts of an unknown upload': '404 NoSuchUpload',
  'Listing at once after a PUT / after a DELETE': '10 of 10 shown / 10 of 10 gone',
  'PUT, If-Match: "right tag"': '200',
  'PUT, If-Match: "wrong tag"': '412 PreconditionFailed',
  'PUT, If-Match: right tag in the form it takes, eight at once': '1 of 8 succeed',
  'PUT, If-Match: right tag, no quotes': '200',
  'PUT, If-Match: tag, nothing there': '404 NoSuchKey / no quotes: 404 NoSuchKey',
  'PUT, If-Match: wrong tag, no quotes': '412 PreconditionFailed',
  'PUT, If-None-Match: *, eight at once': '1 of 8 succeed',
  'PUT, If-None-Match: *, nothing there': '200',
  'PUT, If-None-Match: *, object there': '412 PreconditionFailed',
  'PUT, x-amz-checksum-crc32 right / wrong': '200, echoed / 400 BadDigest',
  'Tag of an object: PUT / multipart: Complete, HEAD, list':
    '"hex32" / "hex32-1", "hex32-1", "hex32-1"',
  'Upload whose one part has no byte': '200, 200, HEAD 200 0',
  'UploadPart with other bytes after Complete': '404 NoSuchUpload, then GET 200',
  'UploadPart, x-amz-checksum-crc32 right / wrong': '200 / 400 BadDigest',
  'Wrong Content-MD5: PUT / UploadPart': '400 BadDigest / 400 BadDigest',
  'Wrong secret / unknown access key': '403 SignatureDoesNotMatch / 403 InvalidAccessKeyId',
  'x-amz-meta of the create, on the object': 'kept',
};

/** What a server must do, by its name. `facts.ts` asks conditions, uploads, checksums and wrong credentials. */
const rules: Record<string, (subject: Subject) => Promise<void>> = {
  'a request that the official client signed is believed': async (subject) => {
    await put(subject, 'signed');
    expect(await textOf(subject, 'signed')).toBe('here');
  },

  'a request that this suite signed by hand is believed': async (subject) => {
    await put(subject, 'by hand');
    const answer = await subject.raw({ key: 'by hand' });
    expect([answer.status, answer.text]).toEqual([200, 'here']);
  },

  'a request without a signature is refused with AccessDenied': async (subject) => {
    await put(subject, 'private');
    const answer = await subject.raw({ key: 'private', credentials: null });
    expect([answer.status, answer.code]).toEqual([403, 'AccessDenied']);
  },

  'a request changed after signing is refused with SignatureDoesNotMatch': async (subject) => {
    await put(subject, 'other');
    const answer = await subject.raw({ key: 'mine', tamper: (to) => to.replace('mine', 'other') });
    expect([answer.status, answer.code]).toEqual([403, 'SignatureDoesNotMatch']);
    const query = await subject.raw({ key: 'other', tamper: (to) => `${to}?response-expires=1` });
    expect([query.status, query.code]).toEqual([403, 'SignatureDoesNotMatch']);
  },

  'an x-amz header that is not signed is refused': async (subject) => {
    const answer = await subject.raw({
      method: 'PUT',
      key: 'smuggled',
      unsignedHeaders: { 'x-amz-meta-smuggled': 'yes' },
    });
    expect([answer.status, answer.code]).toEqual([403, 'AccessDenied']);
  },

  'a clock 20 minutes off is refused with RequestTimeTooSkewed': async (subject) => {
    for (const skewMs of [-20 * 60_000, 20 * 60_000]) {
      const answer = await subject.raw({ key: 'x', skewMs });
      expect([answer.status, answer.code]).toEqual([403, 'RequestTimeTooSkewed']);
    }
  },

  'a clock 10 minutes off is believed': async (subject) => {
    await put(subject, 'skewed');
    const answer = await subject.raw({ key: 'skewed', skewMs: -10 * 60_000 });
    expect(answer.status).toBe(200);
  },

  'a wrong region is refused, and the right one named': async (subject) => {
    const answer = await subject.raw({ key: 'x', region: 'mars-north-1' });
    expect([answer.status, answer.code]).toEqual([400, 'AuthorizationHeaderMalformed']);
    expect(answer.text).toContain(`<Region>${subject.region}</Region>`);
  },

  'a payload hash that is none is refused with InvalidArgument': async (subject) => {
    const answer = await subject.raw({ method: 'PUT', key: 'x', body: 'x', payloadHash: 'SOME' });
    expect([answer.status, answer.code]).toEqual([400, 'InvalidArgument']);
  },

  'a presigned URL serves its object': async (subject) => {
    await put(subject, 'presigned é');
    const response = await fetch(await presign(subject, 'presigned é'));
    expect([response.status, await response.text()]).toEqual([200, 'here']);
  },

  'a presigned URL for another object is refused with SignatureDoesNotMatch': async (subject) => {
    await put(subject, 'theirs');
    const url = await presign(subject, 'ours');
    const response = await fetch(url.replace('ours', 'theirs'));
    expect([response.status, await codeOf(response)]).toEqual([403, 'SignatureDoesNotMatch']);
  },

  'an expired presigned URL is refused with 403': async (subject) => {
    await put(subject, 'late');
    const anHourAgo = new Date(performance.timeOrigin - 3_600_000);
    const response = await fetch(await presign(subject, 'late', 60, anHourAgo));
    expect([response.status, await codeOf(response)]).toEqual([403, 'AccessDenied']);
  },

  'a listing is in the order of UTF-8 bytes': async (subject) => {
    // By UTF-16 code units the last two would change places.
    const keys = ['order/A', 'order/a', 'order/\uff5e', 'order/\u{1f600}'];
    for (const key of keys.toReversed()) await put(subject, key);
    expect(await pages(subject, { Prefix: 'order/' })).toEqual([keys]);
  },

  'a listing in pages repeats and misses nothing': async (subject) => {
    const keys = ['page/1', 'page/2', 'page/3', 'page/4', 'page/5'];
    for (const key of keys) await put(subject, key);
    const found = await pages(subject, { Prefix: 'page/', MaxKeys: 2 });
    expect(found).toEqual([keys.slice(0, 2), keys.slice(2, 4), keys.slice(4)]);
    expect(await pages(subject, { Prefix: 'page/', StartAfter: 'page/3' })).toEqual([
      keys.slice(3),
    ]);
  },

  'a read with If-None-Match of the current ETag is 304, with If-Match of another 412': async (
    subject,
  ) => {
    const { ETag = '' } = await put(subject, 'read');
    const read = async (headers: Record<string, string>) =>
      (await subject.raw({ key: 'read', headers })).status;
    expect(await read({ 'if-none-match': ETag })).toBe(304);
    expect(await read({ 'if-match': '"0"' })).toBe(412);
  },

  'parts become one object whose ETag is the MD5 of their MD5s and their number': async (
    subject,
  ) => {
    const key = 'mp/whole';
    const headers = { 'content-type': 'text/plain', 'x-amz-meta-run': '7' };
    const { id } = await begin(subject, key, headers);
    const end = { tag: tagOf(await sendPart(subject, key, id, 7, 'the end')), number: 7 };
    const first = { tag: tagOf(await sendPart(subject, key, id, 2, fiveMiB)), number: 2 };
    expect((await subject.raw({ key })).status).toBe(404);
    expect(said(await complete(subject, key, id, [first, end]))).toBe('200');
    const got = await subject.raw({ key });
    const sums = createHash('md5').update(Buffer.concat([md5(fiveMiB), md5('the end')]));
    expect(got.headers).toMatchObject({ ...headers, etag: `"${sums.digest('hex')}-2"` });
    expect(got.text === `${fiveMiB}the end`).toBe(true);
  },

  'a part that was never sent is InvalidPart': async (subject) => {
    const { sent, complete: finish } = await upload(subject, 'mp/invalid', [[1, 'x']]);
    const [part = { tag: '', number: 1 }] = sent;
    expect(await finish(part, { ...part, number: 2 })).toBe('400 InvalidPart');
    expect(await finish(part)).toBe('200');
  },

  'parts out of order, or twice, are InvalidPartOrder': async (subject) => {
    const made = await upload(subject, 'mp/order', [
      [1, fiveMiB],
      [2, 'x'],
    ]);
    const [one = { tag: '', number: 1 }] = made.sent;
    expect(await made.complete(...made.sent.toReversed())).toBe('400 InvalidPartOrder');
    expect(await made.complete(one, one)).toBe('400 InvalidPartOrder');
    expect(await made.complete(...made.sent)).toBe('200');
  },

  'a part below 5 MiB that is not the last is EntityTooSmall': async (subject) => {
    const small = fiveMiB.subarray(1);
    const made = await upload(subject, 'mp/small', [
      [1, small],
      [2, 'x'],
    ]);
    expect(await made.complete(...made.sent)).toBe('400 EntityTooSmall');
    await made.end();
  },

  'part numbers are 1 to 10,000': async (subject) => {
    const { id } = await begin(subject, 'mp/numbers');
    const send = async (number: number) =>
      said(await sendPart(subject, 'mp/numbers', id, number, 'x'));
    expect([await send(0), await send(10_001), await send(10_000)]).toEqual([
      ...['400 InvalidArgument', '400 InvalidArgument', '200'],
    ]);
    await abort(subject, 'mp/numbers', id);
  },
};

const subject = useStage(async () => {
  const bucket = 'protocol';
  const region = 'us-east-1';
  const credentials = { accessKeyId: 'AKIAPROTOCOL', secretAccessKey: 'protocol-secret' };
  const { endpoint, close } = await startS3Server({ buckets: [bucket], region, credentials });
  return openSubject({ endpoint, bucket, region, credentials, close });
});

test('answers what foreign stores are asked too', async () => {
  expect(Object.fromEntries(await measureFacts(subject))).toEqual(foreignAnswers);
});

test.each(Object.entries(rules))('%s', (_, check) => check(subject));
