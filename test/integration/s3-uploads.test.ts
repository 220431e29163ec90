import { randomBytes } from 'node:crypto';
import { Agent as HttpAgent } from 'node:http';
import { describe, expect, it } from 'vitest';
import { SluiceError } from '../../src/foundation/domain/errors.ts';
import { codeOf, options, readAll, recordingJournal } from '../conformance/destination-suite.ts';
import { beginFile, partBytes, serve, start, twoParts, upload } from '../support/s3-destination.ts';
import type { Fault, FaultEffect } from '../support/s3-server/faults.ts';
import { until } from '../support/until.ts';

const part = (effect: FaultEffect, more: Partial<Fault> = {}): Fault => ({
  match: { operation: 'UploadPart' },
  effect,
  ...more,
});

describe('an upload to S3', () => {
  it.each<[string, FaultEffect]>([
    ['is answered with SlowDown', { status: 503, code: 'SlowDown' }],
    ['fails inside the store', { status: 500, code: 'InternalError' }],
    ['is reset in the middle', { resetAfterBytes: 100_000 }],
    ['gets no answer', { halfOpen: true }],
    ['moves ten bytes a second', { trickleBytesPerSecond: 10 }],
    ['loses its answer', { loseResponse: true }],
    ['is damaged on the way', { status: 400, code: 'BadDigest' }],
    ['is signed with a clock that is wrong', { status: 403, code: 'RequestTimeTooSkewed' }],
  ])('sends a part again that %s', async (_, effect) => {
    const started = await start({ context: { stallTimeoutMs: 400 } });
    const fault = started.server.faults.add(part(effect));
    await upload(started, twoParts);
    expect(fault.hits).toBe(1);
    expect((await readAll(started.destination, 'a.jsonl'))?.equals(twoParts)).toBe(true);
    expect(started.server.uploads('exports')).toEqual([]);
  });

  it('fails after its own retries, and can then be aborted', async () => {
    const { server, destination, sent } = await start({ context: { partsInFlight: 1 } });
    server.faults.add(part({ status: 503, code: 'SlowDown' }, { probability: 1 }));
    const { journal } = recordingJournal();
    const writer = await destination.createFile(options('a.jsonl'), journal);
    expect(await codeOf(writer.write(twoParts))).toBe('destination.throttled');
    expect(sent('UploadPart')).toBe(5);
    expect(await codeOf(writer.complete())).toBe('destination.throttled');
    server.faults.clear();
    await writer.abort();
    expect(server.uploads('exports')).toEqual([]);
    expect(server.objects('exports')).toEqual([]);
  });

  it('holds no more parts in flight than it may, nor more connections', async () => {
    const httpAgent = new HttpAgent({ keepAlive: true });
    const started = await start({ context: { httpAgent, partsInFlight: 2 } });
    started.server.faults.add(part({ delayMs: 20 }, { times: 8 }));
    await upload(started, randomBytes(8 * partBytes));
    expect(Object.values(httpAgent.freeSockets).flat()).toHaveLength(2);
    httpAgent.destroy();
  });

  it('sends what was written in small pieces, while its buffer grows', async () => {
    const { server, destination } = await start();
    const bytes = randomBytes(Math.round(2.5 * partBytes));
    const writer = await destination.createFile(options('a'), recordingJournal().journal);
    for (let at = 0; at < bytes.length; at += 10_007) {
      await writer.write(bytes.subarray(at, at + 10_007));
    }
    await writer.complete();
    const [object] = server.objects('exports');
    expect([object?.parts, object?.body().equals(bytes)]).toEqual([3, true]);
  });

  it('grows its parts instead of cutting the file', async () => {
    const limits = { server: { maxParts: 3 }, context: { maxParts: 3 } };
    const started = await start(limits);
    const bytes = randomBytes(Math.round(6.8 * partBytes));
    await upload(started, bytes);
    const [object] = started.server.objects('exports');
    expect([object?.parts, object?.body().equals(bytes)]).toEqual([3, true]);
  });

  it('fails, and shows nothing, if the file is too large even for the largest parts', async () => {
    const { server, destination } = await start({ context: { maxParts: 2 } });
    const writer = await destination.createFile(options('a'), recordingJournal().journal);
    expect(await codeOf(writer.write(randomBytes(Math.round(3.2 * partBytes))))).toBe(
      'destination.invalid_config',
    );
    await writer.abort();
    expect([...server.objects('exports'), ...server.uploads('exports')]).toEqual([]);
  });

  it('carries a CRC32 per part, its type, its encoding and its encryption', async () => {
    const { server, destination } = await start({
      config: { encryption: 'aws:kms', kms_key_id: 'arn:aws:kms:us-east-1:1:key/k' },
    });
    const file = { key: 'a', contentType: 'text/csv', contentEncoding: 'gzip' };
    const writer = await destination.createFile(file, recordingJournal().journal);
    await writer.write(twoParts);
    await writer.complete();
    expect(server.objects('exports')[0]).toMatchObject({
      contentType: 'text/csv',
      encryption: 'aws:kms',
      kmsKeyId: 'arn:aws:kms:us-east-1:1:key/k',
      crc32: expect.stringMatching(/-2$/),
    });
  });

  it('ends at once when it is aborted in the middle', async () => {
    const { server, destination } = await start();
    server.faults.add(part({ halfOpen: true }, { probability: 1 }));
    const { journal } = recordingJournal();
    const writer = await destination.createFile(options('a'), journal);
    const writing = codeOf(writer.write(randomBytes(4 * partBytes)));
    await until(() => server.requests.some((entry) => entry.operation === 'UploadPart'));
    await writer.abort();
    expect(await writing).toMatch(/^destination\./);
    expect(server.uploads('exports')).toEqual([]);
  });

  it('ends whatever it waits for when its run is cancelled, and can then be aborted', async () => {
    const { server, destination } = await start();
    const cancel = new AbortController();
    const { journal } = recordingJournal();
    const writer = await destination.createFile(options('a'), journal, cancel.signal);
    const match = { operation: 'CompleteMultipartUpload' } as const;
    const completion = server.faults.add({ match, effect: { halfOpen: true } });
    await writer.write(twoParts);
    const completing = codeOf(writer.complete({ replaces: null }));
    await until(() => completion.hits === 1);
    cancel.abort();
    expect(await completing).toMatch(/^destination\./);
    await writer.abort();
    expect([...server.objects('exports'), ...server.uploads('exports')]).toEqual([]);
    const late = destination.createFile(options('b'), journal, cancel.signal);
    expect(await codeOf(late)).toMatch(/^destination\./);
    expect(server.uploads('exports')).toEqual([]);
  });

  it('is not aborted while the store may be completing it over an object that readers know', async () => {
    const started = await start({ context: { stallTimeoutMs: 400 } });
    const { server, destination } = started;
    await upload(started, twoParts, 'a');
    const complete = { operation: 'CompleteMultipartUpload' } as const;
    const effect = { halfOpen: true } as const;
    const silent = server.faults.add({ match: complete, probability: 1, effect });
    const writer = await beginFile(destination, twoParts);
    const replaces = server.objects('exports')[0]?.etag ?? '';
    expect(await codeOf(writer.complete({ replaces }))).toBe('destination.stalled');
    expect(silent.hits).toBe(5);
    await writer.abort();
    expect(server.uploads('exports')).toHaveLength(1);
  });

  it('stops when its journal refuses, as it does for a worker that lost its lease', async () => {
    const { server, destination } = await start();
    const lost = () => Promise.reject(new SluiceError('run.lease_lost'));
    const { journal } = recordingJournal();
    const writer = await destination.createFile(options('a'), { ...journal, sent: lost });
    await writer.write(twoParts).catch(() => {});
    expect(await codeOf(writer.complete())).toBe('run.lease_lost');
    expect(server.objects('exports')).toEqual([]);
  });
});

describe('the completion of an upload', () => {
  const complete = { operation: 'CompleteMultipartUpload' } as const;

  it.each<[string, FaultEffect]>([
    ['says 200 and means an error', { okWithError: 'InternalError' }],
    ['loses its answer', { loseResponse: true }],
    ['fails', { status: 503, code: 'ServiceUnavailable' }],
    ['gets no answer', { halfOpen: true }],
    ['collides with another operation', { status: 409, code: 'OperationAborted' }],
  ])('is repeated if it %s', async (_, effect) => {
    const started = await start({ context: { stallTimeoutMs: 400 } });
    started.server.faults.add({ match: complete, effect });
    await upload(started, twoParts);
    expect((await readAll(started.destination, 'a.jsonl'))?.equals(twoParts)).toBe(true);
    expect(started.sent('CompleteMultipartUpload')).toBeGreaterThan(1);
  });

  it('knows its own object if the store has forgotten the upload', async () => {
    const started = await start();
    started.server.faults.add({ match: { ...complete, nth: 1 }, effect: { loseResponse: true } });
    const gone = { status: 404, code: 'NoSuchUpload' };
    started.server.faults.add({ match: { ...complete, nth: 1 }, effect: gone });
    await upload(started, twoParts);
    expect(started.sent('CompleteMultipartUpload')).toBe(2);
    expect((await readAll(started.destination, 'a.jsonl'))?.equals(twoParts)).toBe(true);
  });

  it('does not take an equal object of somebody else for its own', async () => {
    const started = await start();
    await upload(started, twoParts);
    const gone = { status: 404, code: 'NoSuchUpload' };
    started.server.faults.add({ match: complete, effect: gone });
    expect(await codeOf(upload(started, twoParts))).toBe('destination.upload_lost');
  });

  it('does not trust a store that drops parts and says success', async () => {
    const port = await serve(({ method, url = '' }, response) => {
      const answer = (xml: string) => response.writeHead(200, { etag: '"e-1"' }).end(xml);
      if (method !== 'POST') answer('');
      else if (url.includes('uploads')) {
        answer('<R><Bucket>exports</Bucket><Key>a</Key><UploadId>u</UploadId></R>');
      } else answer('<R><Location>x</Location><ETag>"e-1"</ETag></R>');
    });
    const started = await start({ config: { endpoint_url: `http://127.0.0.1:${port}` } });
    expect(await codeOf(upload(started, twoParts))).toBe('destination.unavailable');
  });

  it('is not sent without the lease of the run', async () => {
    const { destination, sent } = await start();
    const writer = await beginFile(destination, twoParts);
    const lease = { holds: () => false, extend: async () => {} };
    expect(await codeOf(writer.complete({ replaces: null, lease }))).toBe('run.lease_lost');
    expect(sent('CompleteMultipartUpload')).toBe(0);
  });

  it('can be tried again after it failed', async () => {
    const { server, destination } = await start();
    const writer = await beginFile(destination, twoParts);
    const broken = { status: 500, code: 'InternalError' };
    server.faults.add({ match: complete, probability: 1, effect: broken });
    expect(await codeOf(writer.complete())).toBe('destination.unavailable');
    server.faults.clear();
    await writer.complete();
    expect((await readAll(destination, 'a'))?.equals(twoParts)).toBe(true);
  });
});
