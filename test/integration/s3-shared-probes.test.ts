import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { allTraits } from '../../src/rows/destinations/destination.ts';
import { s3Definition } from '../../src/rows/destinations/s3/definition.ts';
import { SharedProbes } from '../../src/rows/destinations/shared-probes.ts';
import {
  codeOf,
  contextWith,
  readAll,
  recordingJournal,
  uploadOf,
} from '../conformance/destination-suite.ts';
import {
  beginFile,
  bucket,
  credentials,
  denied,
  type OpenedStore,
  openStore,
  partBytes,
} from '../support/s3-destination.ts';
import { until } from '../support/until.ts';
import { inTest } from '../support/use-stage.ts';

let store: OpenedStore;
let sharedProbes: SharedProbes;
beforeEach(async () => {
  store = await openStore();
  sharedProbes = new SharedProbes();
});
afterEach(() => store.close());

const usual = {
  bucket_name: bucket,
  aws_access_key_id: credentials.accessKeyId,
  aws_secret_access_key: credentials.secretAccessKey,
};

/** As an export of a project that was not changed lately. @returns how many requests its probe sent */
async function probe(project: string, config: Readonly<Record<string, unknown>> = {}) {
  const before = store.server.requests.length;
  const { region, endpoint: endpoint_url } = store.server;
  const owner = { externalId: project, changedForMs: 3_600_000 };
  const context = contextWith({ sharedProbes });
  const at = { ...usual, region, endpoint_url, ...config };
  const destination = s3Definition.open(at, context, owner, null);
  try {
    await destination.probe(AbortSignal.timeout(30_000));
  } finally {
    await destination.close();
  }
  return store.server.requests.length - before;
}

it('one probe is for all exports with the same bucket, key and secret, whatever their project', async () => {
  expect(await probe('one')).toBeGreaterThan(0);
  expect([await probe('one'), await probe('two')]).toEqual([0, 0]);
});

it.each([
  ['another prefix', { prefix: 'elsewhere' }, 0],
  ['another encryption', { encryption: 'AES256' }, 1],
  ['another ACL', { acl: 'bucket-owner-full-control' }, 1],
])(
  'an export with %s shares it only if the store may not answer otherwise',
  async (_, config, least) => {
    await probe('one');
    expect(Math.min(await probe('two', config), 1)).toBe(least);
  },
);

it('who knows the key but not the secret learns nothing from it', async () => {
  await probe('one');
  const guessed = probe('two', { aws_secret_access_key: 'guessed' });
  expect(await codeOf(guessed)).toBe('destination.invalid_credentials');
});

describe('the marker of a probe during a commit', () => {
  const commit = async (faults: number) => {
    const destination = store.open(allTraits);
    const { etag } = await destination.commitManifest('a_manifest.json', Buffer.from('1'), null);
    store.server.setQuirks({ quotedIfMatch: 'refuse' });
    store.fault('DeleteObject', denied, { times: faults });
    const markersNow = () =>
      store.server
        .objects(bucket)
        .map((object) => object.key)
        .filter((key) => key.startsWith('.sluice-test-of-a-run.'));
    let noted = 0;
    const journal = {
      ...recordingJournal().journal,
      marker: 'of-a-run.',
      async starting() {
        // The place is noted before the store has the object.
        expect(markersNow()).toEqual([]);
        noted += 1;
      },
    };
    await destination.commitManifest('a_manifest.json', Buffer.from('2'), etag, { journal });
    return { noted, markers: markersNow().length };
  };

  it('names its run, and is removed', async () => {
    expect(await commit(0)).toEqual({ noted: 1, markers: 0 });
  });

  it('stays if it cannot be removed: the sweep finds it by its run', async () => {
    expect(await commit(1)).toEqual({ noted: 1, markers: 1 });
  });
});

it('a probe removes old markers of processes that died, and no young one', async () => {
  const { destination, server } = await inTest(openStore({}, {}, { prefix: 'a/b' }));
  const old = ['a/.sluice-test-old', 'a/b/.sluice-test-old', 'a/b/.sluice-tested'];
  for (const each of [...old, 'a/b/.sluice-test-young']) {
    await destination.commitManifest(each, Buffer.from('1'), null);
  }
  for (const each of old) server.age(bucket, each, 25 * 3_600_000);
  await destination.probe(AbortSignal.timeout(30_000));
  expect(server.objects(bucket).map(({ key }) => key)).toEqual([
    ...['a/b/.sluice-test-young', 'a/b/.sluice-tested'],
  ]);
});

const complete = { operation: 'CompleteMultipartUpload' } as const;
const internal = { status: 500, code: 'InternalError' };
const forever = Number.POSITIVE_INFINITY;
const begin = (bytes: Uint8Array = Buffer.from('bytes')) => beginFile(store.destination, bytes);
const content = () => readAll(store.destination, 'a');

describe('a store that takes parts of a completed upload', () => {
  const quirks = { lateParts: 'take', abortOfCompleted: 'no-such-key' } as const;

  it('is no harm to an abort of the completed upload', async () => {
    store = await openStore({ quirks });
    const writer = await begin();
    await writer.complete();
    await store.destination.abortUpload(uploadOf(writer));
    expect(String(await content())).toBe('bytes');
  });
});

describe('a store that names no tag when it completes', () => {
  const quirks = { completionTag: 'empty' } as const;

  it('is asked for it, and completes once', async () => {
    store = await openStore({ quirks });
    const writer = await begin();
    expect((await writer.complete()).etag).toBe(store.server.objects('exports')[0]?.etag);
    expect(store.sent('CompleteMultipartUpload')).toBe(1);
  });

  it('gives the tag as the store shows it, though a repeat names it without quotes', async () => {
    store = await openStore({ quirks });
    store.server.faults.add({ match: complete, effect: { loseResponse: true } });
    const writer = await begin();
    const { etag } = await writer.complete();
    expect(etag).toBe((await store.destination.statFile('a'))?.etag);
    expect(etag).toMatch(/^"/);
    expect(store.sent('CompleteMultipartUpload')).toBe(2);
  });

  it('is believed if the credentials are good for writing only', async () => {
    store = await openStore({ quirks });
    for (const operation of ['HeadObject', 'GetObject'] as const) {
      store.fault(operation, denied, { times: forever });
    }
    const writer = await begin();
    expect((await writer.complete()).etag).toBe(store.server.objects('exports')[0]?.etag);
  });
});

describe('a store that answers 500 to the completion of a lost upload', () => {
  const quirks = { unknownUploads: 'fail', completionTag: 'empty' } as const;

  async function writtenFile() {
    store = await openStore({ quirks });
    const writer = await begin(randomBytes(partBytes));
    await until(() => store.server.uploads('exports')[0]?.parts.length === 1);
    return writer;
  }

  it('is asked for the parts, and the upload is lost', async () => {
    const writer = await writtenFile();
    await store.destination.abortUpload(uploadOf(writer));
    expect(await codeOf(writer.complete())).toBe('destination.upload_lost');
    expect(await content()).toBeNull();
  });

  it('does not take another object for its own', async () => {
    const writer = await writtenFile();
    await store.destination.abortUpload(uploadOf(writer));
    await store.destination.commitManifest('a', Buffer.from('another'), null);
    expect(await codeOf(writer.complete())).toBe('destination.upload_lost');
    expect(String(await content())).toBe('another');
  });

  it('has completed it if the object has the mark of the upload', async () => {
    const writer = await writtenFile();
    store.server.faults.add({ match: complete, effect: { loseResponse: true } });
    store.server.faults.add({ match: complete, times: forever, effect: internal });
    expect((await writer.complete()).etag).toBe(store.server.objects('exports')[0]?.etag);
  });

  it('is unavailable, and the upload is kept, while it still knows the upload', async () => {
    const writer = await writtenFile();
    store.server.faults.add({ match: complete, times: forever, effect: internal });
    expect(await codeOf(writer.complete())).toBe('destination.unavailable');
    store.server.faults.clear();
    await writer.complete();
    expect(await content()).toHaveLength(partBytes);
  });
});

it('a put that lost its race and was answered 500 is a conflict when it is sent again', async () => {
  store = await openStore();
  const { destination, server } = store;
  const { etag } = await destination.commitManifest('m.json', Buffer.from('1'), null);
  await destination.commitManifest('m.json', Buffer.from('2'), etag);
  const effect = { status: 500, code: 'UnknownError' };
  server.faults.add({ match: { operation: 'PutObject' }, effect });
  const late = destination.commitManifest('m.json', Buffer.from('late'), etag);
  expect(await codeOf(late)).toBe('destination.conflict');
  expect(String(await readAll(destination, 'm.json'))).toBe('2');
});
