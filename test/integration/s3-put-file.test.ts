import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import {
  allTraits,
  type Destination,
  type DestinationContext,
} from '../../src/rows/destinations/destination.ts';
import { SluiceError } from '../../src/foundation/domain/errors.ts';
import {
  codeOf,
  keysUnder,
  options,
  readAll,
  recordingJournal,
} from '../conformance/destination-suite.ts';
import {
  bucket,
  denied,
  type OpenedStore,
  openStore,
  partBytes,
} from '../support/s3-destination.ts';
import type { FaultEffect } from '../support/s3-server/faults.ts';
import type { S3ServerOptions } from '../support/s3-server/server.ts';
import { attempt, firstJob, manifestPath, openIntervalBench } from '../support/interval-bench.ts';
import { useStage } from '../support/use-stage.ts';

let store: OpenedStore;
afterEach(() => store?.close());

const small = randomBytes(10_000);
const file = { ...options('a.jsonl'), owner: 'export 1', isNewKey: true };

/** A destination at a store that was probed. */
async function open(
  server: Partial<S3ServerOptions> = {},
  context: Partial<DestinationContext> = {},
  config: Readonly<Record<string, unknown>> = {},
): Promise<Destination> {
  store = await openStore(server, context, config);
  return store.open(allTraits);
}

async function begin(destination: Destination, bytes: Uint8Array = small, given = file) {
  const { journal, heard } = recordingJournal();
  const writer = await destination.createFile(given, journal);
  await writer.write(bytes);
  return { writer, heard };
}

const operations = () => store.server.requests.map(({ operation }) => operation);
const onPut = (effect: FaultEffect, times = 1) => store.fault('PutObject', effect, { times });

describe('a file smaller than a part, at a key of its own', () => {
  it('is sent in one request once it is complete, as an upload would be', async () => {
    const destination = await open({}, {}, { encryption: 'AES256' });
    const { writer, heard } = await begin(destination);
    await writer.flush();
    expect(operations()).toEqual([]);
    const { etag } = await writer.complete({ replaces: null });
    expect(await writer.complete({ replaces: null })).toEqual({ etag });
    expect(operations()).toEqual(['PutObject']);
    expect(heard).toEqual([]);
    expect(writer.upload).toBeNull();
    const [object] = store.server.objects(bucket);
    expect(object).toMatchObject({
      contentType: file.contentType,
      metadata: { 'sluice-export': 'export 1' },
      encryption: 'AES256',
      parts: undefined,
    });
    expect(object?.body().equals(small)).toBe(true);
    expect(await destination.statFile('a.jsonl')).toMatchObject({ etag, owner: 'export 1' });
  });

  it('may be empty', async () => {
    const { writer } = await begin(await open(), Buffer.alloc(0));
    await writer.complete({ replaces: null });
    expect(store.server.objects(bucket)).toMatchObject([{ bytes: 0 }]);
  });

  it('gets an upload as soon as it has filled a part', async () => {
    const destination = await open();
    const bytes = randomBytes(Math.round(2.5 * partBytes));
    const { writer, heard } = await begin(destination, bytes.subarray(0, partBytes - 1));
    expect(operations()).toEqual([]);
    await writer.write(bytes.subarray(partBytes - 1));
    expect([operations()[0], heard[0]]).toEqual(['CreateMultipartUpload', 'starting']);
    await writer.complete({ replaces: null });
    expect(store.server.objects(bucket)).toMatchObject([
      { parts: 3, crc32: expect.any(String), metadata: { 'sluice-export': 'export 1' } },
    ]);
    expect((await readAll(destination, 'a.jsonl'))?.equals(bytes)).toBe(true);
  });

  it('has other checksums if the store, asked for the upload, takes no CRC32', async () => {
    // It drops parts that have one.
    const destination = await open({ quirks: { checksums: 'drop-parts' } });
    const bytes = randomBytes(2 * partBytes);
    const { writer } = await begin(destination, bytes);
    await writer.complete({ replaces: null });
    expect((await readAll(destination, 'a.jsonl'))?.equals(bytes)).toBe(true);
  });

  it('is not begun if the journal cannot record the upload', async () => {
    const destination = await open();
    const { journal } = recordingJournal();
    const lost = { ...journal, starting: () => Promise.reject(new SluiceError('run.lease_lost')) };
    const writer = await destination.createFile(file, lost);
    expect(await codeOf(writer.write(randomBytes(partBytes)))).toBe('run.lease_lost');
    expect(await codeOf(writer.complete({ replaces: null }))).toBe('run.lease_lost');
    await writer.abort();
    expect(operations()).toEqual([]);
  });

  it.each([
    ['was not probed', null, {}],
    ['does not keep If-None-Match', { ...allTraits, ifNoneMatch: false }, {}],
    ['gets a file that is replaced in place', allTraits, { isNewKey: false }],
  ])('has an upload if the store %s', async (_, traits, given) => {
    await open();
    const destination = store.open(traits);
    const { writer } = await begin(destination, small, { ...file, ...given });
    await writer.complete({ replaces: null });
    expect(operations()).toContain('CompleteMultipartUpload');
    expect(operations()).not.toContain('PutObject');
  });

  it('is forgotten by an abort: nothing was sent', async () => {
    const { writer } = await begin(await open());
    await writer.abort();
    expect(await codeOf(writer.complete({ replaces: null }))).toBe('destination.unavailable');
    expect(operations()).toEqual([]);
  });
});

describe('the put of a small file', () => {
  it.each<[string, FaultEffect]>([
    ['is answered with SlowDown', { status: 503, code: 'SlowDown' }],
    ['gets the page of a proxy', { foreignAnswer: { status: 200, body: 'welcome' } }],
    [
      'has a checksum that the store does not take',
      { status: 400, code: 'InvalidRequest', message: 'The checksum is not supported' },
    ],
  ])('is sent again if it %s', async (_, effect) => {
    const destination = await open({}, { stallTimeoutMs: 400 });
    const { writer } = await begin(destination);
    const fault = onPut(effect);
    await writer.complete({ replaces: null });
    expect([fault.hits, (await readAll(destination, 'a.jsonl'))?.equals(small)]).toEqual([1, true]);
  });

  it('is a success if its answer was lost: the object is its own', async () => {
    const destination = await open();
    const { writer } = await begin(destination);
    onPut({ loseResponse: true });
    const { etag } = await writer.complete({ replaces: null });
    expect(operations()).toEqual(['PutObject', 'PutObject', 'HeadObject']);
    expect(await destination.statFile('a.jsonl')).toMatchObject({ etag });
  });

  it('leaves what is at the key, even with the same bytes', async () => {
    const destination = await open();
    const { writer: first } = await begin(destination);
    await first.complete({ replaces: null });
    const { writer } = await begin(destination, small, { ...file, owner: 'export 2' });
    expect(await codeOf(writer.complete({ replaces: null }))).toBe('destination.conflict');
    expect(await destination.statFile('a.jsonl')).toMatchObject({ owner: 'export 1' });
    expect(destination.traits).toEqual(allTraits);
  });

  it('is not made by a worker without the lease', async () => {
    const { writer } = await begin(await open());
    const asked: boolean[] = [];
    const lease = {
      holds: () => asked.length < 1,
      extend: async (always: boolean) => void asked.push(always),
    };
    const code = await codeOf(writer.complete({ replaces: null, lease }));
    expect([code, asked]).toEqual(['run.lease_lost', [false]]);
    expect(operations()).toEqual([]);
  });

  it('is looked for if the tag is no digest, as with KMS', async () => {
    const kms = { encryption: 'aws:kms', kms_key_id: 'arn:aws:kms:us-east-1:1:key/k' };
    const { writer } = await begin(await open({}, {}, kms));
    await writer.complete({ replaces: null });
    expect(operations()).toEqual(['PutObject', 'HeadObject']);
  });

  it('fails if the answer was for another request, of a proxy', async () => {
    const destination = await open();
    const { writer } = await begin(destination);
    onPut({ foreignAnswer: { status: 200, body: '', etag: '"5eb63bbbe01eeed093cb22bb8f5acdc3"' } });
    expect(await codeOf(writer.complete({ replaces: null }))).toBe('destination.unavailable');
    expect(await keysUnder(destination, '')).toEqual([]);
  });
});

describe('a store that no longer keeps If-None-Match', () => {
  it('is found out, and the next attempt uploads', async () => {
    const destination = await open({ quirks: { ifNoneMatch: 'refuse' } });
    const { writer } = await begin(destination);
    expect(await codeOf(writer.complete({ replaces: null }))).toBe('destination.conflict');
    expect(destination.traits).toMatchObject({ ifNoneMatch: false });
    const { writer: next } = await begin(destination);
    await next.complete({ replaces: null });
    expect((await readAll(destination, 'a.jsonl'))?.equals(small)).toBe(true);
  });

  it('is believed if it refuses once without a reason', async () => {
    const destination = await open();
    const { writer } = await begin(destination);
    onPut({ status: 412, code: 'PreconditionFailed' });
    await writer.complete({ replaces: null });
    expect(destination.traits).toMatchObject({ ifNoneMatch: true });
  });

  it('is not asked for ever if it refuses only files', async () => {
    const destination = await open();
    const { writer } = await begin(destination);
    const match = { operation: 'PutObject', key: /^a\.jsonl$/ } as const;
    const effect = { status: 412, code: 'PreconditionFailed' };
    store.server.faults.add({ match, times: 2, effect });
    expect(await codeOf(writer.complete({ replaces: null }))).toBe('destination.conflict');
    expect(destination.traits).toMatchObject({ ifNoneMatch: false });
  });
});

const bench = useStage(() => openIntervalBench(10));
/** Credentials that may put and delete, but neither read nor list. */
const openUnread = async (config: Readonly<Record<string, unknown>> = {}) => {
  store = await openStore({}, {}, config);
  for (const operation of ['GetObject', 'HeadObject'] as const) {
    store.fault(operation, denied, { times: 1_000 });
  }
  return store.destination;
};

const manifestAtStore = () => {
  const found = store.server.objects(bucket).find(({ key }) => key === manifestPath);
  return JSON.parse(String(found?.body() ?? 'null'));
};

const md5 = (text: string) => createHash('md5').update(text).digest('hex');

describe('credentials that may not read', () => {
  /** Three attempts of a run; two of them died after their manifests. */
  it('replace the manifest of a dead attempt, and that of the one after it', async () => {
    const destination = await openUnread();
    let job = firstJob();
    for (const number of [1, 2, 3]) {
      const made = attempt(bench, destination, { ...job, attempt: number, generation: number });
      await made.exported;
      expect(manifestAtStore()).toMatchObject({ attempt: number });
      job = { ...job, intent: made.intent, begunManifests: made.intent?.begunManifests ?? [] };
    }
  });

  it('replace no manifest of a later commit', async () => {
    const destination = await openUnread();
    const job = firstJob();
    const first = attempt(bench, destination, job);
    await first.exported;
    const begunManifests = first.intent?.begunManifests ?? [];
    const next = { ...job, generation: 2, attempt: 2, begunManifests };
    const asleep = attempt(bench, destination, next, {
      confirmCommit: async (intent) => {
        const later = { ...job, runId: randomUUID(), generation: 3 };
        const known = intent.begunManifests ?? [];
        await attempt(bench, destination, { ...later, begunManifests: known }).exported;
      },
    });
    expect(await codeOf(asleep.exported)).toBe('destination.access_denied');
    expect(manifestAtStore()).toMatchObject({ generation: 3 });
  });

  it('count their own put as done if only its answer was lost', async () => {
    const destination = await openUnread();
    const put = { operation: 'PutObject', key: /_manifest/ } as const;
    store.server.faults.add({ match: put, effect: { loseResponse: true } });
    await attempt(bench, destination, firstJob()).exported;
    expect(manifestAtStore()).toMatchObject({ attempt: 1 });
  });

  it.each([
    ['without encryption', null, /s3:GetObject/],
    ['with KMS', 'aws:kms', /KMS.*s3:GetObject/],
  ])('say that they need to read, if the manifest is unknown, %s', async (_, encryption, text) => {
    const destination = await openUnread({ encryption });
    const other = Buffer.from('{"another": 1}');
    await destination.commitManifest(manifestPath, other, null);
    const known = encryption ? [md5(String(other))] : [];
    const refused = await destination
      .commitManifest(manifestPath, Buffer.from('{}'), null, { ours: known })
      .catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(SluiceError);
    expect(refused).toMatchObject({ code: 'destination.access_denied' });
    expect((refused as SluiceError).message).toMatch(text);
    expect(manifestAtStore()).toEqual({ another: 1 });
  });
});
