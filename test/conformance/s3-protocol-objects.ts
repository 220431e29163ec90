import {
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  type ListObjectsV2CommandInput,
  PutObjectCommand,
  type PutObjectCommandInput,
} from '@aws-sdk/client-s3';
import { expect } from 'vitest';
import { type Rules, refusal, type Subject } from './s3-protocol-subject.ts';

const put = (
  { s3, bucket }: Subject,
  key: string,
  body = 'x',
  conditions: Pick<PutObjectCommandInput, 'IfMatch' | 'IfNoneMatch'> = {},
) => s3.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: body, ...conditions }));

const text = async (subject: Subject, key: string): Promise<string> =>
  (await subject.raw({ key })).text;

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
  'a key that is not there is NoSuchKey, a bucket NoSuchBucket': async (subject) => {
    const { s3, bucket } = subject;
    const get = (Bucket: string) => s3.send(new GetObjectCommand({ Bucket, Key: 'nowhere' }));
    expect(await refusal(get(bucket))).toBe('404 NoSuchKey');
    expect(await refusal(get('no-such-bucket-here'))).toBe('404 NoSuchBucket');
    expect(await refusal(s3.send(new HeadObjectCommand({ Bucket: bucket, Key: 'nowhere' })))).toBe(
      '404 NotFound',
    );
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
};

/** https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html */
export const conditionRules: Rules = {
  'If-None-Match: * puts a new object, and is refused with 412 on one that exists': async (
    subject,
  ) => {
    await put(subject, 'once', 'first', { IfNoneMatch: '*' });
    const again = put(subject, 'once', 'second', { IfNoneMatch: '*' });
    expect(await refusal(again)).toBe('412 PreconditionFailed');
    expect(await text(subject, 'once')).toBe('first');
  },

  'of several writers with If-None-Match: * exactly one wins': async (subject) => {
    const writers = ['a', 'b', 'c', 'd', 'e'];
    const answers = await Promise.all(
      writers.map((name) => refusal(put(subject, 'race', name, { IfNoneMatch: '*' }))),
    );
    expect(answers.filter((answer) => answer === 'not refused')).toHaveLength(1);
    expect(await text(subject, 'race')).toBe(writers[answers.indexOf('not refused')]);
  },

  'If-Match replaces the version it names and no other': async (subject) => {
    const { ETag } = await put(subject, 'versioned', 'first');
    await put(subject, 'versioned', 'second', { IfMatch: ETag });
    const stale = put(subject, 'versioned', 'third', { IfMatch: ETag });
    expect(await refusal(stale)).toBe('412 PreconditionFailed');
    expect(await text(subject, 'versioned')).toBe('second');
  },

  'If-Match on a key that is not there is 404 NoSuchKey': async (subject) => {
    const nothing = put(subject, 'not yet', 'x', { IfMatch: '"00000000000000000000000000000000"' });
    expect(await refusal(nothing)).toBe('404 NoSuchKey');
  },

  'a read with If-None-Match of the current ETag is 304, with If-Match of another 412': async (
    subject,
  ) => {
    const { ETag = '' } = await put(subject, 'read', 'x');
    const unchanged = await subject.raw({ key: 'read', headers: { 'if-none-match': ETag } });
    expect([unchanged.status, unchanged.text]).toEqual([304, '']);
    const other = new GetObjectCommand({ Bucket: subject.bucket, Key: 'read', IfMatch: '"0"' });
    expect(await refusal(subject.s3.send(other))).toBe('412 PreconditionFailed');
  },
};
