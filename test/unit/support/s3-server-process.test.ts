import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { expect, test } from 'vitest';
import { refusal } from '../../conformance/s3-protocol-subject.ts';
import { spawnS3Server } from '../../support/s3-server/spawn.ts';

test('the S3 server runs as a process, and its faults and state are in reach', async () => {
  const credentials = { accessKeyId: 'AKIAPROCESS', secretAccessKey: 'process-secret' };
  const server = await spawnS3Server({
    buckets: ['own', 'other'],
    credentials,
    region: 'eu-west-1',
  });
  const s3 = new S3Client({
    endpoint: server.endpoint,
    region: 'eu-west-1',
    credentials,
    forcePathStyle: true,
    maxAttempts: 1,
  });
  const put = (Key: string) =>
    refusal(s3.send(new PutObjectCommand({ Bucket: 'own', Key, Body: `body of ${Key}` })));
  try {
    await server.faults.add({
      match: { operation: 'PutObject', key: /^A$/i },
      times: Number.POSITIVE_INFINITY,
      effect: { status: 503, code: 'SlowDown' },
    });
    expect([await put('a'), await put('a'), await put('b')]).toEqual([
      '503 SlowDown',
      '503 SlowDown',
      'not refused',
    ]);
    await server.faults.clear();
    expect(await put('a')).toBe('not refused');
    expect((await server.objects('own')).map(({ key }) => key)).toEqual(['a', 'b']);
    expect((await server.body('own', 'b')).toString()).toBe('body of b');
    expect((await server.requests()).map(({ status }) => status)).toEqual([503, 503, 200, 200]);
    expect(await server.uploads('other')).toEqual([]);
    await expect(server.uploads('missing')).rejects.toThrow('no bucket missing');
  } finally {
    s3.destroy();
    await server.close();
  }
  expect(() => process.kill(server.pid, 0)).toThrow('ESRCH');
});
