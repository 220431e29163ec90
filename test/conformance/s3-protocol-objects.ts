import { createHash } from 'node:crypto';
import {
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  type ListObjectsV2CommandInput,
  PutObjectCommand,
} from '@aws-sdk/client-s3';
import { expect } from 'vitest';
import { type Rules, refusal, type Subject } from './s3-protocol-subject.ts';

const put = ({ s3, bucket }: Subject, key: string, body = 'x') =>
  s3.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: body }));

const list = ({ s3, bucket }: Subject, input: Partial<ListObjectsV2CommandInput>) =>
  s3.send(new ListObjectsV2Command({ Bucket: bucket, ...input }));

/** All pages of a listing, as the keys of each. */
async function pages(
  subject: Subject,
  input: Partial<ListObjectsV2CommandInput>,
): Promise<string[][]> {
  const found: string[][] = [];
  let token: string | undefined;
  do {
    const page = await list(subject, { ...input, ContinuationToken: token });
    const keys = (page.Contents ?? []).map(({ Key = '' }) => Key);
    found.push(keys);
    token = page.NextContinuationToken;
    expect(page.IsTruncated).toBe(token !== undefined);
  } while (token !== undefined);
  return found;
}

export const objectRules: Rules = {
  'an object comes back with its type, encoding, metadata and MD5 as ETag': async (subject) => {
    const { s3, bucket } = subject;
    const key = { Bucket: bucket, Key: 'described' };
    const { ETag } = await s3.send(
      new PutObjectCommand({
        ...key,
        Body: 'content',
        ContentType: 'application/x-ndjson',
        ContentEncoding: 'gzip',
        Metadata: { run: '42' },
      }),
    );
    expect(ETag).toBe(`"${createHash('md5').update('content').digest('hex')}"`);
    const head = await s3.send(new HeadObjectCommand(key));
    const got = await s3.send(new GetObjectCommand(key));
    for (const answer of [head, got]) {
      expect(answer).toMatchObject({
        ETag,
        ContentLength: 7,
        ContentType: 'application/x-ndjson',
        ContentEncoding: 'gzip',
        Metadata: { run: '42' },
      });
      expect(answer.LastModified).toBeInstanceOf(Date);
    }
    expect(await got.Body?.transformToString()).toBe('content');
  },

  'an empty object is an object': async (subject) => {
    await subject.raw({ method: 'PUT', key: 'empty', body: '' });
    const got = await subject.raw({ key: 'empty' });
    expect([got.status, got.text, got.headers['content-length']]).toEqual([200, '', '0']);
  },

  'a second PUT replaces the first': async (subject) => {
    await put(subject, 'twice', 'first');
    await put(subject, 'twice', 'second');
    expect((await subject.raw({ key: 'twice' })).text).toBe('second');
  },

  'a range gives its bytes, and one past the end 416': async (subject) => {
    await put(subject, 'ranged', '0123456789');
    const get = (range: string) => subject.raw({ key: 'ranged', headers: { range } });
    for (const [range, text, content] of [
      ['bytes=2-4', '234', 'bytes 2-4/10'],
      ['bytes=7-', '789', 'bytes 7-9/10'],
      ['bytes=-2', '89', 'bytes 8-9/10'],
      ['bytes=5-99', '56789', 'bytes 5-9/10'],
    ] as const) {
      const answer = await get(range);
      expect([answer.status, answer.text, answer.headers['content-range']]).toEqual([
        206,
        text,
        content,
      ]);
    }
    const beyond = await get('bytes=10-');
    expect([beyond.status, beyond.code]).toEqual([416, 'InvalidRange']);
  },

  'a key that is not there is NoSuchKey, a bucket NoSuchBucket': async (subject) => {
    const { s3, bucket } = subject;
    const get = (Bucket: string) => s3.send(new GetObjectCommand({ Bucket, Key: 'nowhere' }));
    expect(await refusal(get(bucket))).toBe('404 NoSuchKey');
    expect(await refusal(get('no-such-bucket-here'))).toBe('404 NoSuchBucket');
    expect(await refusal(s3.send(new HeadObjectCommand({ Bucket: bucket, Key: 'nowhere' })))).toBe(
      '404 NotFound',
    );
  },

  'an error is an XML document with Code, Message and RequestId': async (subject) => {
    const answer = await subject.raw({ key: 'nowhere at all' });
    for (const name of ['Code', 'Message', 'RequestId']) expect(answer.text).toContain(`<${name}>`);
    expect(answer.headers['content-type']).toContain('xml');
  },

  'a delete is done once and answered 204 twice': async (subject) => {
    const remove = () =>
      subject.s3.send(new DeleteObjectCommand({ Bucket: subject.bucket, Key: 'doomed' }));
    await put(subject, 'doomed');
    for (const _ of [1, 2]) expect((await remove()).$metadata.httpStatusCode).toBe(204);
    expect((await subject.raw({ key: 'doomed' })).status).toBe(404);
  },

  'DeleteObjects deletes all it names': async (subject) => {
    const keys = ['bulk/1 & 2', 'bulk/<3>', 'bulk/never there'];
    for (const key of keys.slice(0, 2)) await put(subject, key);
    const { Deleted = [] } = await subject.s3.send(
      new DeleteObjectsCommand({
        Bucket: subject.bucket,
        Delete: { Objects: keys.map((Key) => ({ Key })) },
      }),
    );
    expect(Deleted.map(({ Key }) => Key)).toEqual(keys);
    expect((await list(subject, { Prefix: 'bulk/' })).KeyCount).toBe(0);
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

  'encoding-type=url encodes keys in a listing': async (subject) => {
    // The example of the API reference is `test_file(3).png`.
    for (const key of ['enc/a b+é', 'enc/test_file(3).png']) await put(subject, key);
    const { Contents = [] } = await list(subject, { Prefix: 'enc/', EncodingType: 'url' });
    expect(Contents.map(({ Key }) => Key)).toEqual([
      'enc/a+b%2B%C3%A9',
      'enc/test_file%283%29.png',
    ]);
  },

  'server-side encryption is echoed': async (subject) => {
    const { s3, bucket } = subject;
    const kms = await s3.send(
      new PutObjectCommand({
        Bucket: bucket,
        Key: 'kms',
        Body: 'x',
        ServerSideEncryption: 'aws:kms',
        SSEKMSKeyId: 'key-1',
      }),
    );
    const head = await s3.send(new HeadObjectCommand({ Bucket: bucket, Key: 'kms' }));
    for (const answer of [kms, head]) {
      expect(answer).toMatchObject({ ServerSideEncryption: 'aws:kms', SSEKMSKeyId: 'key-1' });
    }
    // With a KMS key the ETag is not the MD5 of the content.
    expect(kms.ETag).not.toBe(`"${createHash('md5').update('x').digest('hex')}"`);
    const plain = await put(subject, 'aes');
    expect(plain.ServerSideEncryption).toBe('AES256');
  },

  'the bucket is there, and another is not': async ({ s3, bucket }) => {
    await s3.send(new HeadBucketCommand({ Bucket: bucket }));
    const other = s3.send(new HeadBucketCommand({ Bucket: 'no-such-bucket-here' }));
    expect(await refusal(other)).toBe('404 NotFound');
  },

  'virtual-host style reaches the same object': async (subject) => {
    await put(subject, 'by host', 'same');
    const { port } = new URL(subject.endpoint);
    const answer = await subject.raw({
      path: '/by host',
      headers: { host: `${subject.bucket}.s3.localhost:${port}` },
    });
    expect([answer.status, answer.text]).toEqual([200, 'same']);
  },
};
