import {
  CreateBucketCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { expect, onTestFinished, test } from 'vitest';
import { openDurableS3 } from '../../src/clients/quickstart/durable-s3.ts';
import { folderOfTests } from '../support/own-folder.ts';

const Bucket = 'kept';
const folder = folderOfTests();
const credentials = { accessKeyId: 'any', secretAccessKey: 'any' };

/** A server over the folder. It is not closed before the next one opens: a kill closes nothing. */
async function open() {
  const { app } = await openDurableS3(folder);
  const endpoint = await app.listen({ port: 0, host: '127.0.0.1' });
  const client = new S3Client({ endpoint, credentials, region: 'us-east-1', forcePathStyle: true });
  onTestFinished(async () => {
    client.destroy();
    await app.close();
  });
  return client;
}

async function listAll(client: S3Client) {
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket }));
  return Contents.map(({ Key, ETag, Size }) => ({ Key, ETag, Size }));
}

test('a change of an object is on disk before it is answered: bytes, metadata and ETag', async () => {
  const first = await open();
  await first.send(new CreateBucketCommand({ Bucket }));
  const Metadata = { mark: 'of ours' };
  const put = (Key: string, Body: string) =>
    first.send(new PutObjectCommand({ Bucket, Key, Body, Metadata, ContentType: 'text/plain' }));
  const long = `${'a folder/'.repeat(60)}ü + %25 & more`;
  await Promise.all(['old', 'new'].map((body) => put('raced', body)));
  await put(long, 'one');
  await put('replaced', 'before');
  await put('replaced', 'after');
  for (const key of ['gone', 'gone too', 'gone as well']) await put(key, 'bytes');
  await first.send(new DeleteObjectCommand({ Bucket, Key: 'gone' }));
  const Objects = [{ Key: 'gone too' }, { Key: 'gone as well' }];
  await first.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
  const partSize = 5 * 1024 * 1024;
  const Body = Buffer.alloc(2 * partSize + 7, 'rows');
  const params = { Bucket, Key: 'of parts', Body, Metadata };
  await new Upload({ client: first, partSize, params }).done();
  const before = await listAll(first);
  expect(before.map(({ Key }) => Key).sort()).toEqual([long, 'of parts', 'raced', 'replaced']);

  const second = await open();
  expect(await listAll(second)).toEqual(before);
  const get = (Key: string) => second.send(new GetObjectCommand({ Bucket, Key }));
  const replaced = await get('replaced');
  expect(await replaced.Body?.transformToString()).toBe('after');
  expect(replaced).toMatchObject({ Metadata, ContentType: 'text/plain' });
  const ofParts = await get('of parts');
  expect(Buffer.from((await ofParts.Body?.transformToByteArray()) ?? []).equals(Body)).toBe(true);
  expect(ofParts).toMatchObject({ Metadata });
});
