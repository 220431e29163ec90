import { GetObjectCommand, PutObjectCommand, type PutObjectCommandInput } from '@aws-sdk/client-s3';
import { expect } from 'vitest';
import { type Rules, refusal, type Subject } from './s3-protocol-subject.ts';

const put = (
  { s3, bucket }: Subject,
  key: string,
  body: string,
  conditions: Pick<PutObjectCommandInput, 'IfMatch' | 'IfNoneMatch'> = {},
) => s3.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: body, ...conditions }));

const text = async (subject: Subject, key: string): Promise<string> =>
  (await subject.raw({ key })).text;

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
