import { randomBytes } from 'node:crypto';
import { createServer, Agent as HttpAgent, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { DestinationContext, UploadJournal } from '../../src/destinations/destination.ts';
import { s3Definition } from '../../src/destinations/s3/definition.ts';
import { SluiceError } from '../../src/domain/errors.ts';
import { createOutboundAgents } from '../../src/security/outbound-filter.ts';
import {
  codeOf,
  contextWith,
  keysUnder,
  options,
  owner,
  readAll,
  recordingJournal,
} from '../conformance/destination-suite.ts';
import type { Fault, FaultEffect } from '../support/s3-server/faults.ts';
import { type S3ServerOptions, startS3Server } from '../support/s3-server/server.ts';
import { until } from '../support/until.ts';

const credentials = { accessKeyId: 'AKIACANARY0000000001', secretAccessKey: 'canary-secret' };
/** Small, so that the tests are quick; the server uses the same limit. */
const partBytes = 256 * 1024;
const serverDefaults = { buckets: ['exports'], credentials, minPartBytes: partBytes };
const closers: (() => Promise<unknown> | unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function start(
  overrides: {
    readonly config?: Record<string, unknown>;
    readonly context?: Partial<DestinationContext>;
    readonly server?: Partial<S3ServerOptions>;
  } = {},
) {
  const server = await startS3Server({ ...serverDefaults, ...overrides.server });
  const config: Record<string, unknown> = {
    bucket_name: 'exports',
    region: 'us-east-1',
    aws_access_key_id: credentials.accessKeyId,
    aws_secret_access_key: credentials.secretAccessKey,
    endpoint_url: server.endpoint,
    ...overrides.config,
  };
  const context = contextWith({ partBytes, ...overrides.context });
  const destination = s3Definition.open(config, context, owner);
  closers.push(
    () => server.close(),
    () => destination.close(),
  );
  const sent = (operation: string) =>
    server.requests.filter((entry) => entry.operation === operation).length;
  return { server, destination, config, context, sent };
}

type Started = Awaited<ReturnType<typeof start>>;

async function upload({ destination }: Started, bytes: Uint8Array, key = 'a.jsonl') {
  const { journal } = recordingJournal();
  const writer = await destination.createFile(options(key), journal);
  await writer.write(bytes);
  await writer.complete();
}

/** A server that gives the answers of the test, which no correct store gives. @returns its port */
async function serve(answer: RequestListener): Promise<number> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => answer(request, response));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

const twoParts = randomBytes(Math.round(1.4 * partBytes));
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
    const progress = { key: 'a', uploadId: 'mark.id', parts };
    const writer = await destination.resumeFile(options('a'), progress, journal);
    expect(writer.upload).toEqual({ key: 'a', uploadId: 'mark.id' });
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

  it('is begun anew if the encryption was edited, also if an older build has begun it', async () => {
    const { server, destination, config, context } = await start();
    const { journal, progress } = recordingJournal();
    const writer = await destination.createFile(options('a'), journal);
    await writer.write(twoParts);
    const recorded = await until(() => progress());
    await writer.suspend();
    const edited = s3Definition.open({ ...config, encryption: 'aws:kms' }, context, owner);
    const uploadId = recorded.uploadId.replace(/\+[0-9a-f]{16}\./, '.');
    for (const left of [{ ...recorded, uploadId }, recorded]) {
      const resumed = edited.resumeFile(options('a'), left, journal);
      expect(await codeOf(resumed)).toBe('destination.upload_lost');
    }
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

describe('a manifest at S3', () => {
  const put = { operation: 'PutObject' } as const;
  const body = Buffer.from('{"run":"a"}');

  it('is committed if its answer was lost', async () => {
    const { server, destination, sent } = await start();
    server.faults.add({ match: put, effect: { loseResponse: true } });
    const { etag } = await destination.commitManifest('m.json', body, null);
    expect(etag).toBe(server.objects('exports')[0]?.etag);
    expect(sent('PutObject')).toBe(2);
  });

  it('is a conflict if the store says so and another one is current', async () => {
    const { server, destination, sent } = await start();
    await destination.commitManifest('m.json', body, null);
    server.faults.add({ match: put, effect: { status: 409, code: 'ConditionalRequestConflict' } });
    const other = destination.commitManifest('m.json', Buffer.from('{"run":"b"}'), null);
    expect(await codeOf(other)).toBe('destination.conflict');
    expect(sent('PutObject')).toBe(2);
    expect(String(server.objects('exports')[0]?.body())).toBe('{"run":"a"}');
  });

  it('is put without a condition if the store supports none', async () => {
    const { server, destination } = await start();
    server.faults.add({ match: put, effect: { status: 501, code: 'NotImplemented' } });
    await destination.commitManifest('m.json', body, null);
    expect(String(server.objects('exports')[0]?.body())).toBe('{"run":"a"}');
  });
});

describe('reading from S3', () => {
  it('ends if the store sends one byte at a time', async () => {
    const started = await start({ context: { stallTimeoutMs: 400 } });
    await upload(started, randomBytes(100_000));
    const get = { operation: 'GetObject' } as const;
    started.server.faults.add({ match: get, effect: { trickleBytesPerSecond: 10 } });
    expect(await codeOf(readAll(started.destination, 'a.jsonl'))).toBe('destination.stalled');
  });

  it('does not take a slow reader of ours for a stall', async () => {
    const started = await start({ context: { stallTimeoutMs: 300 } });
    const bytes = randomBytes(16 * partBytes);
    await upload(started, bytes);
    await upload(started, twoParts, 'b.jsonl');
    const match = { operation: 'GetObject', key: /^b/ } as const;
    started.server.faults.add({ match, times: 3, effect: { trickleBytesPerSecond: 10 } });
    const found = await started.destination.readFile('a.jsonl');
    let read = 0;
    for await (const chunk of found?.body ?? []) {
      // Other bodies stall three times while this one waits for its reader.
      if (read === 0) {
        for (let stall = 0; stall < 3; stall += 1) {
          expect(await codeOf(readAll(started.destination, 'b.jsonl'))).toBe('destination.stalled');
        }
      }
      read += chunk.length;
    }
    expect(read).toBe(bytes.length);
  });

  it('lists more objects than one answer holds', async () => {
    const { destination } = await start();
    const keys = Array.from({ length: 1003 }, (_, index) => `k/${String(index).padStart(4, '0')}`);
    const left = keys.values();
    const put = async () => {
      for (const key of left) await destination.commitManifest(key, Buffer.from('{}'), null);
    };
    await Promise.all(Array.from({ length: 8 }, put));
    expect(await keysUnder(destination, 'k/')).toEqual(keys);
  });

  it('reports a body that breaks off', async () => {
    const started = await start();
    await upload(started, twoParts);
    const get = { operation: 'GetObject' } as const;
    started.server.faults.add({ match: get, effect: { resetAfterBytes: 100_000 } });
    expect(await codeOf(readAll(started.destination, 'a.jsonl'))).toBe('destination.unavailable');
  });
});

describe('the test of an S3 destination', () => {
  const failing: readonly {
    readonly name: string;
    readonly step: string;
    readonly error: RegExp;
    readonly config?: Record<string, unknown>;
    readonly server?: Partial<S3ServerOptions>;
    readonly fault?: Fault;
    readonly context?: () => Partial<DestinationContext>;
  }[] = [
    {
      name: 'an address that is not allowed',
      step: 'address',
      error: /The endpoint cannot be reached/,
      context: () => createOutboundAgents([]),
    },
    {
      name: 'an address without a listener',
      step: 'address',
      error: /The endpoint cannot be reached/,
      config: { endpoint_url: 'http://127.0.0.1:1' },
    },
    {
      name: 'a name that does not resolve',
      step: 'address',
      error: /The endpoint cannot be reached/,
      config: { endpoint_url: 'http://store.invalid' },
    },
    {
      name: 'an unknown key',
      step: 'credentials',
      error: /invalid_credentials/,
      config: { aws_access_key_id: 'AKIACANARY0000000002' },
    },
    {
      name: 'a wrong secret',
      step: 'credentials',
      error: /invalid_credentials/,
      config: { aws_secret_access_key: 'canary-wrong' },
    },
    {
      name: 'expired credentials',
      step: 'credentials',
      error: /expired_credentials/,
      server: { credentials: { ...credentials, expired: true } },
    },
    {
      name: 'a bucket that is not there',
      step: 'bucket',
      error: /bucket_not_found/,
      config: { bucket_name: 'elsewhere' },
    },
    {
      name: 'a bucket of another region',
      step: 'bucket',
      error: /wrong_region.*eu-west-1/,
      server: { buckets: [{ name: 'exports', region: 'eu-west-1' }] },
    },
    {
      name: 'writing that is denied',
      step: 'write',
      error: /access_denied/,
      fault: {
        match: { operation: 'CreateMultipartUpload' },
        effect: { status: 403, code: 'AccessDenied' },
      },
    },
    {
      name: 'a KMS key that is not there',
      step: 'encryption',
      error: /kms_denied/,
      config: { encryption: 'aws:kms', kms_key_id: 'missing' },
      server: { kmsKeys: ['other'] },
    },
    {
      name: 'deleting that is denied',
      step: 'delete',
      error: /access_denied/,
      fault: {
        match: { operation: 'DeleteObject' },
        probability: 1,
        effect: { status: 403, code: 'AccessDenied' },
      },
    },
  ];

  it.each(failing)('names $step for $name', async ({ step, error, fault, context, ...rest }) => {
    const { server, destination } = await start({ ...rest, context: context?.() ?? {} });
    if (fault) server.faults.add(fault);
    const steps = await destination.test(AbortSignal.timeout(10_000));
    const failed = steps.filter((each) => !each.passed);
    expect(failed.map((each) => each.step)).toEqual([step]);
    expect(steps.at(-1)).toBe(failed[0]);
    expect(failed[0]?.error).toMatch(error);
    // No key and no secret in what the owner sees.
    expect(JSON.stringify(steps)).not.toMatch(/CANARY|canary/);
  });

  it('warns if listing is denied, and continues', async () => {
    const { server, destination } = await start();
    const denied = { status: 403, code: 'AccessDenied' };
    server.faults.add({ match: { operation: 'ListObjectsV2' }, effect: denied });
    const steps = await destination.test(AbortSignal.timeout(10_000));
    expect(steps.every((each) => each.passed)).toBe(true);
    expect(steps.find((each) => each.step === 'bucket')?.warning).toMatch(/list/);
  });

  it('warns if the store has no conditional writes', async () => {
    const { server, destination } = await start();
    const unknown = { status: 501, code: 'NotImplemented' };
    server.faults.add({ match: { operation: 'PutObject' }, effect: unknown });
    const steps = await destination.test(AbortSignal.timeout(10_000));
    expect(steps.find((each) => each.step === 'conditional_write')).toMatchObject({
      passed: true,
      warning: expect.stringMatching(/conditional writes/),
    });
  });

  it('writes its marker below the part of the prefix that has no variable', async () => {
    const { server, destination } = await start({ config: { prefix: '/a/b/{year}/c' } });
    await destination.test(AbortSignal.timeout(10_000));
    const keys = server.requests.filter((entry) => entry.key).map((entry) => entry.key);
    expect(keys.length).toBeGreaterThan(0);
    for (const key of keys) expect(key).toMatch(/^a\/b\/\.sluice-test-/);
  });
});

describe('a connection to S3', () => {
  it('fails at once, with one request, if only the owner can help', async () => {
    const { server, destination } = await start({ config: { aws_secret_access_key: 'wrong' } });
    const file = destination.createFile(options('a'), recordingJournal().journal);
    expect(await codeOf(file)).toBe('destination.invalid_credentials');
    expect(server.requests).toHaveLength(1);
  });

  it('is made with the process’s own credentials only if the settings allow it', async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', credentials.accessKeyId);
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', credentials.secretAccessKey);
    closers.push(() => vi.unstubAllEnvs());
    const none = { aws_access_key_id: null, aws_secret_access_key: null };
    const lent = { allowAmbientCredentials: true };
    const started = await start({ config: none, context: lent });
    expect(s3Definition.validate(started.config, started.context)).toEqual([]);
    expect(s3Definition.validate(started.config, contextWith({}))).not.toEqual([]);
    await upload(started, twoParts);
    expect(started.server.objects('exports')).toHaveLength(1);
  });

  it('names the bucket in the host if the config says so', async () => {
    const outbound = createOutboundAgents(['*.s3.localhost'], (_host, lookup, answer) =>
      lookup.all
        ? answer(null, [{ address: '127.0.0.1', family: 4 }])
        : answer(null, '127.0.0.1', 4),
    );
    const server = await startS3Server(serverDefaults);
    const started = await start({
      config: {
        use_virtual_style_addressing: true,
        endpoint_url: `http://s3.localhost:${server.port}`,
      },
      context: outbound,
    });
    closers.push(() => server.close());
    await upload(started, twoParts);
    expect(server.objects('exports').map((object) => object.key)).toEqual(['a.jsonl']);
  });

  it('does not follow a redirect', async () => {
    let hits = 0;
    const target = await serve((_, response) => {
      hits += 1;
      response.end();
    });
    const redirecting = await serve((_, response) => {
      response.writeHead(307, { location: `http://127.0.0.1:${target}/` }).end();
    });
    const endpoint_url = `http://127.0.0.1:${redirecting}`;
    const { destination } = await start({ config: { endpoint_url } });
    expect(await codeOf(destination.readFile('a'))).toBe('destination.unavailable');
    expect(hits).toBe(0);
  });
});

describe('a role', () => {
  /** Speaks as much of STS as AssumeRole needs. */
  async function startSts(answer: (form: URLSearchParams) => { status: number; xml: string }) {
    const calls: URLSearchParams[] = [];
    const server = createServer(async (request, response) => {
      let body = '';
      for await (const chunk of request.setEncoding('utf8')) body += chunk;
      const form = new URLSearchParams(body);
      calls.push(form);
      const { status, xml } = answer(form);
      response.writeHead(status, { 'content-type': 'text/xml' }).end(xml);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    closers.push(() => server.close());
    return { calls, endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  }

  const role = { role_arn: 'arn:aws:iam::123456789012:role/exports' };
  const issued = {
    accessKeyId: 'ASIACANARY0000000001',
    secretAccessKey: 'issued-secret',
    sessionToken: 'issued-token',
  };

  it('is assumed with the external id of the project, once for many requests', async () => {
    const sts = await startSts(() => ({
      status: 200,
      xml: `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
        <AccessKeyId>${issued.accessKeyId}</AccessKeyId><SecretAccessKey>${issued.secretAccessKey}</SecretAccessKey>
        <SessionToken>${issued.sessionToken}</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration>
        </Credentials></AssumeRoleResult></AssumeRoleResponse>`,
    }));
    const started = await start({
      config: role,
      context: { stsEndpoint: sts.endpoint },
      server: { credentials: issued },
    });
    await upload(started, twoParts);
    expect(started.server.objects('exports')).toHaveLength(1);
    expect(sts.calls).toHaveLength(1);
    expect(Object.fromEntries(sts.calls[0] ?? [])).toMatchObject({
      Action: 'AssumeRole',
      RoleArn: role.role_arn,
      ExternalId: owner.externalId,
    });
  });

  it('is asked for again if a proxy answers in place of STS', async () => {
    const sts = await startSts(() => ({ status: 403, xml: '<html><body>Forbidden</body></html>' }));
    const { destination } = await start({ config: role, context: { stsEndpoint: sts.endpoint } });
    expect(await codeOf(destination.readFile('a'))).toBe('destination.unavailable');
    expect(sts.calls).toHaveLength(5);
  });

  it('that may not be assumed is a fault of the credentials', async () => {
    const sts = await startSts(() => ({
      status: 403,
      xml: '<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>User AKIACANARY0000000001 is not authorized to perform: sts:AssumeRole</Message></Error></ErrorResponse>',
    }));
    const { destination } = await start({ config: role, context: { stsEndpoint: sts.endpoint } });
    const steps = await destination.test(AbortSignal.timeout(10_000));
    expect(steps.at(-1)).toMatchObject({ step: 'credentials', passed: false });
    expect(steps.at(-1)?.error).toMatch(/invalid_credentials.*cannot assume the role/);
    expect(JSON.stringify(steps)).not.toMatch(/CANARY|canary/);
  });
});
