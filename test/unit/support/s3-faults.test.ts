import {
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  GetObjectCommand,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type S3Server, startS3Server } from '../../support/s3-server/server.ts';
import { until } from '../../support/until.ts';

const credentials = { accessKeyId: 'AKIAFAULTS', secretAccessKey: 'canary-secret-value' };
const Bucket = 'faults';

let server: S3Server;
let s3: S3Client;

const connect = (secretAccessKey = credentials.secretAccessKey): S3Client =>
  new S3Client({
    endpoint: server.endpoint,
    region: server.region,
    credentials: { ...credentials, secretAccessKey },
    forcePathStyle: true,
    maxAttempts: 1,
  });

beforeEach(async () => {
  server = await startS3Server({ buckets: [Bucket], credentials, seed: 7 });
  s3 = connect();
});

afterEach(async () => {
  s3.destroy();
  await server.close();
});

const put = (Key: string, Body: string | Buffer = 'x') =>
  s3.send(new PutObjectCommand({ Bucket, Key, Body }));

const get = async (Key: string): Promise<Buffer> => {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
  return Buffer.from((await Body?.transformToByteArray()) ?? []);
};

/** What a promise failed with: the S3 code or the socket's. */
const failure = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'none',
    (error: Error & { code?: string }) => error.code ?? error.name,
  );

const keys = () => server.objects(Bucket).map(({ key }) => key);

describe('a fault', () => {
  test('hits one request by default, and only one that it matches', async () => {
    const fault = server.faults.add({
      match: { operation: 'PutObject', key: /^a/ },
      effect: { status: 503, code: 'SlowDown' },
    });
    await put('b');
    expect(await failure(put('a1'))).toBe('SlowDown');
    await put('a2');
    expect(keys()).toEqual(['a2', 'b']);
    expect(fault.hits).toBe(1);
    expect(server.requests.map(({ status, code, fault: kind }) => [status, code, kind])).toEqual([
      [200, undefined, undefined],
      [503, 'SlowDown', 'status'],
      [200, undefined, undefined],
    ]);
  });

  test('hits the n-th matching request, as many times as set, until it is cleared', async () => {
    const effect = { status: 500, code: 'InternalError' };
    server.faults.add({ match: { nth: 2 }, times: 5, effect });
    const outcomes = [];
    for (const key of ['1', '2', '3']) outcomes.push(await failure(put(key)));
    expect(outcomes).toEqual(['none', 'InternalError', 'none']);
    server.faults.add({
      match: {},
      times: Number.POSITIVE_INFINITY,
      effect: { status: 403, code: 'AccessDenied' },
    });
    for (const key of ['4', '5']) expect(await failure(put(key))).toBe('AccessDenied');
    server.faults.clear();
    await put('6');
  });

  test('with a probability hits about that share, the same for the same seed', async () => {
    const run = async (): Promise<string[]> => {
      server.faults.add({ match: {}, probability: 0.3, effect: { status: 500, code: 'Oops' } });
      const outcomes = [];
      for (let index = 0; index < 60; index++) outcomes.push(await failure(put('p')));
      return outcomes;
    };
    const first = await run();
    const struck = first.filter((outcome) => outcome === 'Oops').length;
    expect(struck).toBeGreaterThan(6);
    expect(struck).toBeLessThan(36);
    await server.close();
    s3.destroy();
    server = await startS3Server({ buckets: [Bucket], credentials, seed: 7 });
    s3 = connect();
    expect(await run()).toEqual(first);
  });

  test('never hides a bad signature', async () => {
    server.faults.add({ match: {}, effect: { status: 503, code: 'SlowDown' } });
    const wrong = connect('wrong');
    const command = new PutObjectCommand({ Bucket, Key: 'x', Body: 'x' });
    expect(await failure(wrong.send(command))).toBe('SignatureDoesNotMatch');
  });

  test('delayMs answers later, and rightly', async () => {
    server.faults.add({ match: {}, effect: { delayMs: 80 } });
    const started = performance.now();
    await put('late');
    expect(performance.now() - started).toBeGreaterThanOrEqual(75);
    expect(keys()).toEqual(['late']);
  });

  test('resetAfterBytes cuts an upload, which leaves nothing', async () => {
    server.faults.add({ match: {}, effect: { resetAfterBytes: 100_000 } });
    expect(await failure(put('cut', Buffer.alloc(3_000_000)))).toMatch(/ECONNRESET|EPIPE/);
    await until(() => server.requests[0]?.requestBytes === 100_000);
    expect(server.requests[0]).toMatchObject({ status: null, fault: 'resetAfterBytes' });
    expect(keys()).toEqual([]);
  });

  test('resetAfterBytes cuts a download in the middle', async () => {
    await put('big', Buffer.alloc(3_000_000));
    server.faults.add({ match: { operation: 'GetObject' }, effect: { resetAfterBytes: 1_000 } });
    expect(await failure(get('big'))).toMatch(/ECONNRESET|aborted/);
    expect((await get('big')).length).toBe(3_000_000);
  });

  test('halfOpen says nothing and keeps the connection, until the client gives up', async () => {
    server.faults.add({ match: {}, effect: { halfOpen: true } });
    const patience = new AbortController();
    const command = new PutObjectCommand({ Bucket, Key: 'silent', Body: 'x' });
    let answered = false;
    const answer = failure(s3.send(command, { abortSignal: patience.signal })).finally(() => {
      answered = true;
    });
    await until(() => server.requests.length === 1);
    // Another request is answered meanwhile.
    await put('beside');
    expect(answered).toBe(false);
    patience.abort();
    expect(await answer).toBe('AbortError');
    expect(keys()).toEqual(['beside']);
  });

  test('trickleBytesPerSecond slows an upload and a download, and both come through', async () => {
    const body = Buffer.alloc(20_000, 'trickle');
    const effect = { trickleBytesPerSecond: 200_000 };
    server.faults.add({ match: {}, times: 2, effect });
    const started = performance.now();
    await put('slow', body);
    const between = performance.now();
    expect(between - started).toBeGreaterThanOrEqual(90);
    expect((await get('slow')).equals(body)).toBe(true);
    expect(performance.now() - between).toBeGreaterThanOrEqual(90);
  });

  test('okWithError answers 200 with an error, and the work is not done', async () => {
    const ids = { Bucket, Key: 'mp' };
    const { UploadId } = await s3.send(new CreateMultipartUploadCommand(ids));
    const part = { ...ids, UploadId, PartNumber: 1 };
    const { ETag } = await s3.send(new UploadPartCommand({ ...part, Body: 'x' }));
    const complete = () =>
      s3.send(
        new CompleteMultipartUploadCommand({
          ...ids,
          UploadId,
          MultipartUpload: { Parts: [{ PartNumber: 1, ETag }] },
        }),
      );
    server.faults.add({
      match: { operation: 'CompleteMultipartUpload' },
      effect: { okWithError: 'InternalError' },
    });
    expect(await failure(complete())).toBe('InternalError');
    expect(server.requests.at(-1)).toMatchObject({ status: 200, code: 'InternalError' });
    expect(server.uploads(Bucket)).toMatchObject([{ key: 'mp', parts: [{ partNumber: 1 }] }]);
    await complete();
    expect(server.uploads(Bucket)).toEqual([]);
  });

  test('loseResponse does the work and sends no answer', async () => {
    server.faults.add({ match: {}, effect: { loseResponse: true } });
    expect(await failure(put('done', 'all of it'))).toMatch(/ECONNRESET|EPIPE/);
    expect(server.objects(Bucket)[0]?.body().toString()).toBe('all of it');
    expect(server.requests[0]).toMatchObject({ status: null, fault: 'loseResponse' });
  });

  test('leaves no secret in the log of requests', async () => {
    await put('logged');
    expect(JSON.stringify(server.requests)).not.toMatch(/canary|AKIAFAULTS|Signature/);
  });
});
