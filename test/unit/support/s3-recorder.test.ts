import {
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type S3Server, startS3Server } from '../../support/s3-server/server.ts';
import { until } from '../../support/until.ts';

const credentials = { accessKeyId: 'AKIARECORDER', secretAccessKey: 'canary-secret-value' };
const Bucket = 'recorded';

let server: S3Server;
let s3: S3Client;
beforeEach(async () => {
  server = await startS3Server({ buckets: [Bucket, 'other'], credentials });
  s3 = new S3Client({
    endpoint: server.endpoint,
    region: server.region,
    credentials,
    forcePathStyle: true,
    maxAttempts: 1,
  });
});
afterEach(async () => {
  s3.destroy();
  await server.close();
});

const put = (Key: string, Body: string, bucket = Bucket) =>
  s3.send(new PutObjectCommand({ Bucket: bucket, Key, Body }));
const remove = (Key: string) => s3.send(new DeleteObjectCommand({ Bucket, Key }));

async function upload(Key: string, Body: string): Promise<void> {
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand({ Bucket, Key }));
  const target = { Bucket, Key, UploadId };
  const { ETag } = await s3.send(new UploadPartCommand({ ...target, PartNumber: 1, Body }));
  const MultipartUpload = { Parts: [{ PartNumber: 1, ETag }] };
  await s3.send(new CompleteMultipartUploadCommand({ ...target, MultipartUpload }));
}

const named = (...files: readonly (readonly [key: string, bytes: number])[]) =>
  files.map(([key, bytes]) => ({ key, bytes }));
const manifest = (files: readonly unknown[], rejected: readonly unknown[] = []) =>
  put('i_manifest.json', JSON.stringify({ files, rejected_files: rejected }));

test('writes and deletes are kept in the order in which they took effect', async () => {
  await put('a', '1');
  await upload('a', '22');
  await remove('a');
  await put('i_manifest.json', '{}');
  expect(server.writes(Bucket)).toMatchObject([
    { sequence: 1, key: 'a', by: 'put', kind: 'file', etag: expect.any(String) },
    { sequence: 2, key: 'a', by: 'complete', kind: 'file' },
    { sequence: 3, key: 'a', by: 'delete', kind: 'file', etag: null },
    { sequence: 4, key: 'i_manifest.json', by: 'put', kind: 'manifest' },
  ]);
  expect(server.namedKeyViolations()).toEqual([]);
});

describe('a key that a current manifest names', () => {
  beforeEach(async () => {
    await put('a', '1');
    await upload('b', '22');
    await manifest(named(['a', 1]), named(['b', 2]));
  });

  test.each([
    ['put', () => put('a', '1')],
    ['complete', () => upload('b', '22')],
    ['delete', () => remove('b')],
    [
      'delete',
      () => s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects: [{ Key: 'a' }] } })),
    ],
  ])('is not touched by a %s', async (by, touch) => {
    expect(server.namedKeyViolations()).toEqual([]);
    await touch();
    expect(server.namedKeyViolations()).toHaveLength(1);
    expect(server.namedKeyViolations()[0]).toMatch(
      new RegExp(`${by} of [ab], which recorded/i_manifest.json names`),
    );
  });

  test('is free once another manifest is in its place', async () => {
    await put('a.v2', '1');
    await manifest(named(['a.v2', 1]));
    await remove('a');
    await remove('b');
    expect(server.namedKeyViolations()).toEqual([]);
    await remove('a.v2');
    expect(server.namedKeyViolations()).toHaveLength(1);
  });

  test('is another key in another bucket, and a refused write does not count', async () => {
    await put('a', '1', 'other');
    const refused = s3.send(
      new PutObjectCommand({ Bucket, Key: 'a', Body: '2', IfNoneMatch: '*' }),
    );
    await expect(refused).rejects.toThrow();
    expect(server.namedKeyViolations()).toEqual([]);
  });
});

test.each([
  ['is not there', named(['missing', 1]), /names missing of 1 bytes, which is not there/],
  ['has another size', named(['a', 2]), /names a of 2 bytes, which has 1 bytes/],
])('a manifest must not name what %s', async (_, files, text) => {
  await put('a', '1');
  await manifest(files);
  expect(server.namedKeyViolations()[0]).toMatch(text);
});

test('a request can outlive its client', async () => {
  server.faults.add({ match: {}, effect: { delayMs: 300, outlivesClient: true } });
  const gone = new AbortController();
  const sent = s3.send(new PutObjectCommand({ Bucket, Key: 'late', Body: 'x' }), {
    abortSignal: gone.signal,
  });
  await until(() => server.requests.length === 1);
  gone.abort();
  await expect(sent).rejects.toThrow();
  expect(server.objects(Bucket)).toEqual([]);
  await until(() => server.objects(Bucket).length === 1);
});
