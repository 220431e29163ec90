import {
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { expect } from 'vitest';
import { type Rules, refusal, type Subject } from './s3-protocol-subject.ts';

const put = ({ s3, bucket }: Subject, key: string, body = 'here') =>
  s3.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: body }));

async function textOf({ s3, bucket }: Subject, key: string): Promise<string | undefined> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket: bucket, Key: key }));
  return Body?.transformToString();
}

const isThere = ({ s3, bucket }: Subject, key: string): Promise<boolean> =>
  s3.send(new HeadObjectCommand({ Bucket: bucket, Key: key })).then(
    () => true,
    () => false,
  );

const oddKeys = [
  'a b+c&d=e?f#g%h.txt',
  "quote's (1)!*~$@,;:.txt",
  'é/日本/𝄞.txt',
  'dot./..x/%2F%20',
];

/** Presigned for the bucket's `key` by the official presigner. */
const presign = (subject: Subject, key: string, expiresIn = 60, signingDate?: Date) =>
  getSignedUrl(subject.s3, new GetObjectCommand({ Bucket: subject.bucket, Key: key }), {
    expiresIn,
    ...(signingDate ? { signingDate } : {}),
  });

async function codeOf(response: Response): Promise<string | undefined> {
  return /<Code>([^<]*)</.exec(await response.text())?.[1];
}

export const signatureRules: Rules = {
  'a request that the official client signed is believed': async (subject) => {
    await put(subject, 'signed');
    expect(await textOf(subject, 'signed')).toBe('here');
  },

  'keys with odd characters are signed, stored and listed as they are': async (subject) => {
    for (const key of oddKeys) {
      await put(subject, key, key);
      expect(await textOf(subject, key)).toBe(key);
    }
    const { Contents = [] } = await subject.s3.send(
      new ListObjectsV2Command({ Bucket: subject.bucket }),
    );
    expect(Contents.map(({ Key }) => Key)).toEqual(expect.arrayContaining(oddKeys));
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

  'a wrong secret is refused with SignatureDoesNotMatch': async (subject) => {
    const credentials = { ...subject.credentials, secretAccessKey: 'not-the-secret' };
    const wrong = subject.client({ credentials });
    const command = new PutObjectCommand({ Bucket: subject.bucket, Key: 'wrong', Body: 'x' });
    expect(await refusal(wrong.send(command))).toBe('403 SignatureDoesNotMatch');
    expect(await isThere(subject, 'wrong')).toBe(false);
  },

  'an unknown access key is refused with InvalidAccessKeyId': async (subject) => {
    const credentials = { ...subject.credentials, accessKeyId: 'NOBODY' };
    const answer = await subject.raw({ key: 'x', credentials });
    expect([answer.status, answer.code]).toEqual([403, 'InvalidAccessKeyId']);
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

  'a body other than x-amz-content-sha256 says is refused and not stored': async (subject) => {
    const answer = await subject.raw({
      method: 'PUT',
      key: 'swapped',
      body: 'sent',
      payloadHash: 'a'.repeat(64),
    });
    expect([answer.status, answer.code]).toEqual([400, 'XAmzContentSHA256Mismatch']);
    expect(await isThere(subject, 'swapped')).toBe(false);
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

  'a wrong x-amz-checksum header is refused with BadDigest and nothing stored': async (subject) => {
    const headers = { 'x-amz-checksum-crc32': 'AAAAAA==' };
    const answer = await subject.raw({ method: 'PUT', key: 'bad crc', body: 'hello', headers });
    expect([answer.status, answer.code]).toEqual([400, 'BadDigest']);
    expect(await isThere(subject, 'bad crc')).toBe(false);
  },

  'a wrong Content-MD5 is refused with BadDigest and nothing stored': async (subject) => {
    const headers = { 'content-md5': 'AAAAAAAAAAAAAAAAAAAAAA==' };
    const answer = await subject.raw({ method: 'PUT', key: 'bad md5', body: 'hello', headers });
    expect([answer.status, answer.code]).toEqual([400, 'BadDigest']);
    expect(await isThere(subject, 'bad md5')).toBe(false);
  },
};
