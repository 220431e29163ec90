import { randomBytes } from 'node:crypto';
import { Agent as HttpAgent } from 'node:http';
import { describe, expect, it } from 'vitest';
import type { UploadJournal } from '../../src/rows/destinations/destination.ts';
import { s3Definition } from '../../src/rows/destinations/s3/definition.ts';
import { SluiceError } from '../../src/foundation/domain/errors.ts';
import {
  codeOf,
  keysUnder,
  options,
  owner,
  readAll,
  recordingJournal,
} from '../conformance/destination-suite.ts';
import { partBytes } from '../support/s3-destination.ts';
import type { Fault, FaultEffect } from '../support/s3-server/faults.ts';
import { serve, start, twoParts, upload } from '../support/s3-under-test.ts';
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

  it('succeeds although one request in five fails', async () => {
    const started = await start({
      context: { requestRetry: { maxAttempts: 10, baseMs: 1, capMs: 5 } },
    });
    started.server.faults.add({
      match: {},
      probability: 0.2,
      effect: { status: 503, code: 'SlowDown' },
    });
    for (const key of ['a', 'b', 'c', 'd', 'e']) await upload(started, twoParts, key);
    started.server.faults.clear();
    expect(await keysUnder(started.destination, '')).toEqual(['a', 'b', 'c', 'd', 'e']);
  });

  it('fails after its own retries, and can then be aborted', async () => {
    const started = await start({ context: { partsInFlight: 1 } });
    const { server, destination, sent } = started;
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
    expect(object?.parts).toBe(3);
    expect(object?.body().equals(bytes)).toBe(true);
  });

  it('grows its parts instead of cutting the file', async () => {
    const limits = { server: { maxParts: 3 }, context: { maxParts: 3 } };
    const started = await start(limits);
    const bytes = randomBytes(Math.round(6.8 * partBytes));
    await upload(started, bytes);
    const [object] = started.server.objects('exports');
    expect(object?.parts).toBe(3);
    expect(object?.body().equals(bytes)).toBe(true);
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
      checksum: { name: 'crc32', type: 'COMPOSITE' },
    });
  });

  it('sends no checksums if the store does not accept them', async () => {
    const started = await start();
    const create = { operation: 'CreateMultipartUpload' } as const;
    started.server.faults.add({ match: create, effect: { status: 501, code: 'NotImplemented' } });
    await upload(started, twoParts);
    const [object] = started.server.objects('exports');
    expect(object?.body().equals(twoParts)).toBe(true);
    expect(object?.checksum?.name).not.toBe('crc32');
  });

  it('ends at once when it is aborted in the middle', async () => {
    const { server, destination } = await start();
    server.faults.add(part({ halfOpen: true }, { probability: 1 }));
    const { journal, heard } = recordingJournal();
    const writer = await destination.createFile(options('a'), journal);
    const writing = codeOf(writer.write(randomBytes(4 * partBytes)));
    await until(() => server.requests.some((entry) => entry.operation === 'UploadPart'));
    await writer.abort();
    expect(await writing).toMatch(/^destination\./);
    expect(server.uploads('exports')).toEqual([]);
    expect(heard.at(-1)?.what).toBe('ended');
  });

  it('ends whatever it waits for when its run is cancelled, and can then be aborted', async () => {
    const { server, destination } = await start();
    const cancel = new AbortController();
    const { journal } = recordingJournal();
    const writer = await destination.createFile(options('a'), journal, cancel.signal);
    const completion = server.faults.add({
      match: { operation: 'CompleteMultipartUpload' },
      effect: { halfOpen: true },
    });
    await writer.write(twoParts);
    const completing = codeOf(writer.complete());
    await until(() => completion.hits === 1);
    cancel.abort();
    expect(await completing).toMatch(/^destination\./);
    await writer.abort();
    expect([...server.objects('exports'), ...server.uploads('exports')]).toEqual([]);
    const late = destination.createFile(options('b'), journal, cancel.signal);
    expect(await codeOf(late)).toMatch(/^destination\./);
    expect(server.uploads('exports')).toEqual([]);
  });

  it('is resumed over more parts than one answer lists', async () => {
    const element = (n: number) =>
      `<Part><PartNumber>${n}</PartNumber><ETag>"e${n}"</ETag><Size>10</Size></Part>`;
    const pages: Record<string, string> = {
      '': `<IsTruncated>true</IsTruncated><NextPartNumberMarker>2</NextPartNumberMarker>${element(1)}${element(2)}`,
      '2': `<IsTruncated>false</IsTruncated>${element(3)}`,
    };
    const port = await serve((request, response) => {
      const { searchParams } = new URL(request.url ?? '', 'http://store');
      const page = pages[searchParams.get('part-number-marker') ?? ''] ?? '';
      response.end(`<ListPartsResult>${page}</ListPartsResult>`);
    });
    const { destination } = await start({ config: { endpoint_url: `http://127.0.0.1:${port}` } });
    const { journal } = recordingJournal();
    const parts = [1, 2, 3].map((number) => ({ number, bytes: 10, tag: `"e${number}"` }));
    const uploadId = 'a1+plain+36a9e7f1c95b82ff.id';
    const progress = { key: 'a', uploadId, parts };
    const writer = await destination.resumeFile(options('a'), progress, journal);
    expect(writer.upload).toEqual({ key: 'a', uploadId });
  });

  it('sends only what is not there yet, once it is resumed', async () => {
    const { server, destination } = await start();
    const { journal, progress } = recordingJournal();
    const first = await destination.createFile(options('a'), journal);
    const bytes = randomBytes(Math.round(3.4 * partBytes));
    await first.write(bytes);
    const recorded = await until(() => (progress()?.parts.length === 3 ? progress() : null));
    await first.suspend();
    const sent = () => server.requests.filter(({ operation }) => operation === 'UploadPart').length;
    const before = sent();
    const second = await destination.resumeFile(options('a'), recorded, journal);
    // A row of the second part has changed in between, so the part is another.
    bytes[partBytes + 7] = (bytes[partBytes + 7] ?? 0) ^ 1;
    await second.write(bytes);
    await second.complete();
    expect(sent() - before).toBe(2);
    expect((await readAll(destination, 'a'))?.equals(bytes)).toBe(true);
    expect(server.uploads('exports')).toEqual([]);
  });

  it('is begun anew if the encryption was edited', async () => {
    const { server, destination, config, context } = await start();
    const { journal, progress } = recordingJournal();
    const writer = await destination.createFile(options('a'), journal);
    await writer.write(twoParts);
    const recorded = await until(() => progress());
    await writer.suspend();
    const edited = s3Definition.open({ ...config, encryption: 'aws:kms' }, context, owner);
    const resumed = edited.resumeFile(options('a'), recorded, journal);
    expect(await codeOf(resumed)).toBe('destination.upload_lost');
    expect(server.uploads('exports')).toEqual([]);
    await edited.close();
  });

  it('is sent anew if the store holds other parts than the recorded ones', async () => {
    const { destination } = await start();
    const { journal, progress } = recordingJournal();
    const writer = await destination.createFile(options('a'), journal);
    await writer.write(twoParts);
    const recorded = await until(() => progress());
    await writer.suspend();
    const parts = recorded.parts.map((each) => ({
      ...each,
      tag: each.tag.replace(/^"[0-9a-f]+"/, '"0123456789abcdef0123456789abcdef"'),
    }));
    const second = await destination.resumeFile(options('a'), { ...recorded, parts }, journal);
    await second.write(twoParts);
    await second.complete();
    expect((await readAll(destination, 'a'))?.equals(twoParts)).toBe(true);
  });

  it('stops when its journal refuses, as it does for a worker that lost its lease', async () => {
    const { server, destination } = await start();
    const lost = () => Promise.reject(new SluiceError('run.lease_lost'));
    const { journal } = recordingJournal();
    const never: UploadJournal = { ...journal, started: lost };
    expect(await codeOf(destination.createFile(options('a'), never))).toBe('run.lease_lost');
    expect(server.uploads('exports')).toEqual([]);
    const writer = await destination.createFile(options('a'), { ...journal, progressed: lost });
    await writer.write(twoParts).catch(() => {});
    expect(await codeOf(writer.complete())).toBe('run.lease_lost');
    expect(server.objects('exports')).toEqual([]);
  });

  it('writes the journal before it asks for the upload, and notes whether there may be another', async () => {
    const { server, destination } = await start();
    const heard: [string, number, boolean?][] = [];
    const begun = () => server.uploads('exports').length;
    const journal: UploadJournal = {
      ...recordingJournal().journal,
      starting: async (key) => void heard.push([key, begun()]),
      started: async ({ key }, alone) => void heard.push([key, begun(), alone]),
    };
    await destination.createFile(options('a'), journal);
    server.faults.add({
      match: { operation: 'CreateMultipartUpload' },
      effect: { loseResponse: true },
    });
    await destination.createFile(options('b'), journal);
    expect(heard).toEqual([
      ['a', 0],
      ['a', 1, true],
      ['b', 1],
      // One of the two for b is on no record.
      ['b', 3, false],
    ]);
  });

  it('notes only an unbroken sequence of parts in the journal', async () => {
    const { server, destination } = await start({ context: { partsInFlight: 3 } });
    server.faults.add(part({ delayMs: 300 }));
    const runs: number[][] = [];
    const journal: UploadJournal = {
      ...recordingJournal().journal,
      progressed: async ({ parts }) => void runs.push(parts.map((each) => each.number)),
    };
    const writer = await destination.createFile(options('a'), journal);
    await writer.write(randomBytes(Math.round(4.4 * partBytes)));
    await writer.complete();
    expect(runs.at(-1)).toEqual([1, 2, 3, 4, 5]);
    for (const run of runs) expect(run).toEqual(run.map((_, index) => index + 1));
    expect(runs[0]?.length).toBeGreaterThan(1);
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

  it('can be tried again after it failed', async () => {
    const { server, destination } = await start();
    const writer = await destination.createFile(options('a'), recordingJournal().journal);
    await writer.write(twoParts);
    const broken = { status: 500, code: 'InternalError' };
    server.faults.add({ match: complete, probability: 1, effect: broken });
    expect(await codeOf(writer.complete())).toBe('destination.unavailable');
    server.faults.clear();
    await writer.complete();
    expect((await readAll(destination, 'a'))?.equals(twoParts)).toBe(true);
  });
});
