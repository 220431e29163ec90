import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { Readable } from 'node:stream';
import {
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  HeadBucketCommand,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { afterEach, describe, expect, test } from 'vitest';
import { refusal } from '../../conformance/s3-protocol-subject.ts';
import type { S3Credentials } from '../../support/s3-server/authentication.ts';
import { sendRaw } from '../../support/s3-server/raw-request.ts';
import {
  type S3Server,
  type S3ServerOptions,
  startS3Server,
} from '../../support/s3-server/server.ts';
import { until } from '../../support/until.ts';

const credentials = { accessKeyId: 'AKIASERVER', secretAccessKey: 'server-secret' };
const Bucket = 'bucket';
const open: { close(): Promise<void> | void }[] = [];

afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

async function start(options: Partial<S3ServerOptions> = {}): Promise<S3Server> {
  const server = await startS3Server({ buckets: [Bucket], credentials, ...options });
  open.push(server);
  return server;
}

function connect(server: S3Server, own: S3Credentials = credentials): S3Client {
  const client = new S3Client({
    endpoint: server.endpoint,
    region: server.region,
    credentials: own,
    forcePathStyle: true,
    maxAttempts: 1,
    followRegionRedirects: false,
  });
  open.push({ close: () => client.destroy() });
  return client;
}

describe('the S3 server', () => {
  test('answers 301 and the region for a bucket of another region', async () => {
    const server = await start({ buckets: [{ name: Bucket, region: 'eu-west-1' }] });
    const put = new PutObjectCommand({ Bucket, Key: 'x', Body: 'x' });
    expect(await refusal(connect(server).send(put))).toBe('301 PermanentRedirect');
    const head = await sendRaw({
      endpoint: server.endpoint,
      method: 'HEAD',
      path: `/${Bucket}`,
      credentials,
    });
    expect([head.status, head.headers['x-amz-bucket-region']]).toEqual([301, 'eu-west-1']);
  });

  test('makes a bucket in its own region only, and not twice outside us-east-1', async () => {
    const server = await start({ region: 'eu-west-1' });
    const s3 = connect(server);
    const create = (name: string, constraint: 'eu-west-1' | 'eu-west-2') =>
      refusal(
        s3.send(
          new CreateBucketCommand({
            Bucket: name,
            CreateBucketConfiguration: { LocationConstraint: constraint },
          }),
        ),
      );
    expect(await create('made-here', 'eu-west-1')).toBe('not refused');
    expect(await create('made-here', 'eu-west-1')).toBe('409 BucketAlreadyOwnedByYou');
    expect(await create('made-there', 'eu-west-2')).toBe('400 IllegalLocationConstraintException');
    expect(await create('Not_A_Name', 'eu-west-1')).toBe('400 InvalidBucketName');
    await s3.send(new HeadBucketCommand({ Bucket: 'made-here' }));
  });

  test('takes temporary credentials with their token only, and says when they expired', async () => {
    const temporary = { ...credentials, sessionToken: 'a token' };
    const server = await start({ credentials: temporary });
    const attempt = (own: S3Credentials) =>
      refusal(connect(server, own).send(new PutObjectCommand({ Bucket, Key: 'x', Body: 'x' })));
    expect(await attempt(temporary)).toBe('not refused');
    expect(await attempt({ ...temporary, sessionToken: 'another' })).toBe('400 InvalidToken');
    server.setCredentials([{ ...temporary, expired: true }]);
    expect(await attempt(temporary)).toBe('400 ExpiredToken');
    server.setCredentials([{ accessKeyId: 'AKIANEXT', secretAccessKey: 'rotated' }]);
    expect(await attempt(temporary)).toBe('403 InvalidAccessKeyId');
  });

  test('knows the KMS keys it is given and no other', async () => {
    const s3 = connect(await start({ kmsKeys: ['known'] }));
    const put = (SSEKMSKeyId: string) =>
      s3.send(
        new PutObjectCommand({
          Bucket,
          Key: 'x',
          Body: 'x',
          ServerSideEncryption: 'aws:kms',
          SSEKMSKeyId,
        }),
      );
    await put('known');
    expect(await refusal(put('unknown'))).toBe('400 KMS.NotFoundException');
  });

  test('keeps to the part limits it is started with', async () => {
    const s3 = connect(await start({ minPartBytes: 10, maxParts: 3 }));
    const ids = { Bucket, Key: 'limits' };
    const { UploadId } = await s3.send(new CreateMultipartUploadCommand(ids));
    const part = async (PartNumber: number, Body: string) => {
      const { ETag } = await s3.send(new UploadPartCommand({ ...ids, UploadId, PartNumber, Body }));
      return { PartNumber, ETag };
    };
    const complete = (Parts: { PartNumber: number; ETag: string | undefined }[]) =>
      s3.send(new CompleteMultipartUploadCommand({ ...ids, UploadId, MultipartUpload: { Parts } }));
    expect(await refusal(part(4, 'x'))).toBe('400 InvalidArgument');
    const [short, last] = [await part(1, 'x'.repeat(9)), await part(3, 'end')];
    expect(await refusal(complete([short, last]))).toBe('400 EntityTooSmall');
    await complete([await part(1, 'x'.repeat(10)), last]);
  });

  test('answers 409 to a conditional PUT whose key is deleted while its body comes in', async () => {
    const server = await start();
    const s3 = connect(server);
    await s3.send(new PutObjectCommand({ Bucket, Key: 'contended', Body: 'old' }));
    server.faults.add({
      match: { operation: 'PutObject' },
      effect: { trickleBytesPerSecond: 20_000 },
    });
    const put = refusal(
      s3.send(
        new PutObjectCommand({
          Bucket,
          Key: 'contended',
          Body: Buffer.alloc(6_000),
          IfNoneMatch: '*',
        }),
      ),
    );
    await until(() => (server.requests[1]?.requestBytes ?? 0) > 0);
    await s3.send(new DeleteObjectCommand({ Bucket, Key: 'contended' }));
    expect(await put).toBe('409 ConditionalRequestConflict');
    expect(server.objects(Bucket)).toEqual([]);
  });

  test('refuses before the body is sent if the client waits for 100 Continue', async () => {
    const server = await start();
    const request = httpRequest(`${server.endpoint}/${Bucket}/early`, {
      method: 'PUT',
      headers: { expect: '100-continue', 'content-length': 1_000_000 },
      agent: false,
    });
    let continued = false;
    request.on('continue', () => {
      continued = true;
    });
    request.flushHeaders();
    const [response] = await once(request, 'response');
    response.resume();
    await once(response, 'end');
    request.destroy();
    expect([response.statusCode, continued]).toEqual([403, false]);
    expect(server.requests[0]).toMatchObject({ status: 403, requestBytes: 0 });
  });

  test('answers 100 Continue to a client that waits for it', async () => {
    const server = await start();
    const answer = await sendRaw({
      endpoint: server.endpoint,
      method: 'PUT',
      path: `/${Bucket}/patient`,
      headers: { expect: '100-continue' },
      body: 'sent after the word',
      credentials,
    });
    expect(answer.status).toBe(200);
    expect(server.objects(Bucket)[0]?.body().toString()).toBe('sent after the word');
  });

  test('answers an error to a client that sends its whole body first', async () => {
    const server = await start();
    const wrong = connect(server, { ...credentials, secretAccessKey: 'wrong' });
    const body = Buffer.alloc(1_500_000);
    const put = () => refusal(wrong.send(new PutObjectCommand({ Bucket, Key: 'x', Body: body })));
    expect(await put()).toBe('403 SignatureDoesNotMatch');
    expect(await put()).toBe('403 SignatureDoesNotMatch');
  });

  test('answers an error found in the middle of a body, and does not cut the connection', async () => {
    const server = await start();
    const answer = await sendRaw({
      endpoint: server.endpoint,
      method: 'PUT',
      path: `/${Bucket}/spoilt`,
      body: Buffer.alloc(6_000_000),
      signedChunks: {
        sizes: [1_000_000, 5_000_000],
        spoil: (signature, chunk) => (chunk === 0 ? '0'.repeat(64) : signature),
      },
      credentials,
    });
    expect([answer.status, answer.code]).toEqual([403, 'SignatureDoesNotMatch']);
    expect(server.requests[0]?.requestBytes).toBeLessThan(3_000_000);
  });

  test('takes 128 MiB in a stream and stays quick for others meanwhile', async () => {
    const server = await start();
    const s3 = connect(server);
    const block = Buffer.alloc(1024 ** 2, 'a megabyte of text ');
    const blocks = 128;
    const md5 = createHash('md5');
    for (let index = 0; index < blocks; index++) md5.update(block);
    const upload = s3.send(
      new PutObjectCommand({
        Bucket,
        Key: 'stream',
        Body: Readable.from(Array.from({ length: blocks }, () => block)),
        ContentLength: blocks * block.length,
      }),
    );
    await until(() => (server.requests[0]?.requestBytes ?? 0) > 10 * block.length, { everyMs: 2 });
    await s3.send(new HeadBucketCommand({ Bucket }));
    expect(server.requests[0]?.status).toBe(null);
    expect((await upload).ETag).toBe(`"${md5.digest('hex')}"`);
    expect(server.objects(Bucket)).toMatchObject([{ key: 'stream', bytes: blocks * block.length }]);
  });

  test('answers what it does not do with 501', async () => {
    const server = await start();
    for (const name of ['acl', 'tagging', 'versions', 'lifecycle']) {
      const query: [string, string][] = [[name, '']];
      const { endpoint } = server;
      const answer = await sendRaw({
        endpoint,
        method: 'GET',
        path: `/${Bucket}`,
        query,
        credentials,
      });
      expect([answer.status, answer.code]).toEqual([501, 'NotImplemented']);
    }
  });
});
