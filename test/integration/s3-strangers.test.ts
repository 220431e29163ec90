import { Agent as HttpAgent } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { allTraits, type StoreTraits } from '../../src/rows/destinations/destination.ts';
import { SluiceError } from '../../src/foundation/domain/errors.ts';
import { codeOf, keysUnder, readAll, recordingJournal } from '../conformance/destination-suite.ts';
import {
  beginFile,
  type OpenedStore,
  openStore,
  twoParts,
  upload,
} from '../support/s3-destination.ts';
import type { S3Quirks } from '../support/s3-server/quirks.ts';
import { firstByDay } from '../support/nightly.ts';
import { until } from '../support/until.ts';

let store: OpenedStore;
afterEach(() => store?.close());

const later = () => AbortSignal.timeout(30_000);
const key = 'a_manifest.json';
const body = (text: string) => Buffer.from(`{"run":"${text}"}`);
const current = async () => String(await readAll(store.destination, key));

const noCreate = { ifNoneMatch: false, completeIfNoneMatch: false };
const noReplace = { ifMatch: 'none', completeIfMatch: false } as const;
const noComplete = { completeIfNoneMatch: false, completeIfMatch: false };
const noChecksums = { checksums: false };

const strangers: readonly (readonly [string, S3Quirks, Partial<StoreTraits>])[] = [
  ['S3', {}, {}],
  ['refuses quotes in If-Match', { quotedIfMatch: 'refuse' }, { ifMatch: 'unquoted' }],
  ['ignores If-None-Match', { ifNoneMatch: 'ignore' }, noCreate],
  ['ignores If-Match', { ifMatch: 'ignore' }, noReplace],
  ['ignores conditions of completions', { completeConditions: 'ignore' }, noComplete],
  ['drops parts with a CRC32', { checksums: 'drop-parts' }, noChecksums],
  ['demands equal parts', { parts: 'equal' }, {}],
  [
    'is as Ceph RGW 16',
    {
      ...{ quotedIfMatch: 'refuse', completeConditions: 'ignore', checksums: 'ignore' },
      ...{ completionTag: 'empty', unknownUploads: 'fail' },
    },
    { ifMatch: 'unquoted', ...noComplete, ...noChecksums },
  ],
  [
    'knows nothing',
    {
      ...{ ifNoneMatch: 'ignore', ifMatch: 'ignore', completeConditions: 'ignore' },
      ...{ checksums: 'drop-parts', listUploads: 'refuse', missingObject: 'empty' },
    },
    { ...noCreate, ...noReplace, ...noChecksums },
  ],
  ['does not know If-None-Match', { ifNoneMatch: 'refuse' }, noCreate],
  ['does not know If-Match', { ifMatch: 'refuse' }, noReplace],
  ['does not know conditions of completions', { completeConditions: 'refuse' }, noComplete],
  ['knows no CRC32', { checksums: 'ignore' }, noChecksums],
  ['demands checksums', { objectLock: 'require-checksum' }, {}],
  [
    'demands checksums and knows no CRC32',
    { objectLock: 'require-checksum', checksums: 'ignore' },
    noChecksums,
  ],
  ['gives no length to a HEAD', { headLength: 'absent' }, {}],
  ['writes XML with prefixes and CDATA', { xml: 'prefixed' }, {}],
];

describe.each(firstByDay(9, strangers))('a store that %s', (_, quirks, differs) => {
  const traits = { ...allTraits, ...differs };

  it('is detected by a probe, which leaves nothing behind', async () => {
    store = await openStore({ quirks }, {}, { prefix: 'a/{year}' });
    const { journal, heard } = recordingJournal();
    expect(await store.destination.probe(later(), { ...journal, marker: 'run.' })).toEqual(traits);
    expect(store.destination.traits).toEqual(traits);
    expect(store.server.objects('exports')).toEqual([]);
    expect(store.server.uploads('exports')).toEqual([]);
    expect(heard).toEqual(['starting']);
    const keys = store.server.requests.flatMap((entry) => entry.key ?? []);
    // One object, beside the prefix: who reads what arrives below it never hears of it.
    expect(new Set(keys).size).toBe(1);
    for (const marker of keys) expect(marker).toMatch(/^\.sluice-test-run\./);
  });

  it.each(['known', 'not known'])(
    'takes each next manifest, if its traits are %s',
    async (known) => {
      store = await openStore({ quirks });
      const destination = store.open(known === 'known' ? traits : null);
      let tag: string | null = null;
      for (const text of ['1', '2', '3']) {
        tag = (await destination.commitManifest(key, body(text), tag)).etag;
        expect(await current()).toBe(String(body(text)));
      }
      expect(await keysUnder(destination, '')).toEqual([key]);
    },
  );

  it('does not replace a manifest that is not the expected one', async () => {
    store = await openStore({ quirks });
    const destination = store.open(traits);
    const { etag } = await destination.commitManifest(key, body('1'), null);
    await destination.commitManifest(key, body('2'), etag);
    const late = (expected: string | null) =>
      codeOf(destination.commitManifest(key, body('late'), expected));
    expect(await late(etag)).toBe('destination.conflict');
    expect(await late(null)).toBe('destination.conflict');
    expect(await current()).toBe(String(body('2')));
  });

  it('gets a file of several parts', async () => {
    store = await openStore({ quirks });
    await upload({ destination: store.open(traits) }, twoParts, 'a');
    expect((await readAll(store.destination, 'a'))?.equals(twoParts)).toBe(true);
    expect(store.sent('CompleteMultipartUpload')).toBe(1);
    const found = store.server.objects('exports')[0]?.crc32;
    expect(found !== undefined).toBe(traits.checksums);
  });

  it('warns of each thing that it does not do, in the test of the destination', async () => {
    store = await openStore({ quirks });
    const steps = await store.destination.test(later());
    expect(steps.filter((step) => !step.passed)).toEqual([]);
    const warned = (step: string) => steps.find((each) => each.step === step)?.warning ?? '';
    expect({
      ifNoneMatch: !warned('conditional_write').includes('If-None-Match'),
      ifMatch: !warned('conditional_write').includes('If-Match'),
      completeIfNoneMatch: !warned('conditional_complete').includes('If-None-Match'),
      completeIfMatch: !warned('conditional_complete').includes('If-Match'),
      checksums: !warned('checksums').includes('CRC32'),
      parts: traits.parts,
    }).toEqual({ ...traits, ifMatch: traits.ifMatch !== 'none' });
  });
});

it('is detected although it forgets a completion whose answer was lost', async () => {
  store = await openStore();
  const match = { operation: 'CompleteMultipartUpload', nth: 1 } as const;
  store.server.faults.add({ match, effect: { loseResponse: true } });
  store.server.faults.add({ match, effect: { status: 404, code: 'NoSuchUpload' } });
  expect(await store.destination.probe(later())).toEqual(allTraits);
});

it.each([
  [1, true],
  [2, null],
])('completes a file although the store refuses a true condition %d times', async (nth, known) => {
  store = await openStore();
  for (let each = 1; each <= nth; each += 1) {
    const match = { operation: 'CompleteMultipartUpload', nth: 1 } as const;
    store.server.faults.add({ match, effect: { status: 412, code: 'PreconditionFailed' } });
  }
  const destination = store.open(allTraits);
  await (await beginFile(destination, Buffer.from('bytes'))).complete({ replaces: null });
  expect(String(await readAll(destination, 'a'))).toBe('bytes');
  // What is doubted is not kept: the next run probes.
  expect(destination.traits).toEqual(known && allTraits);
});

describe('a put without a condition', () => {
  const traits: StoreTraits = { ...allTraits, ifNoneMatch: false, ifMatch: 'none' };

  it('asks the fence right before it', async () => {
    store = await openStore({ quirks: { ifNoneMatch: 'ignore', ifMatch: 'ignore' } });
    const seen: number[] = [];
    const confirm = async () => void seen.push(store.sent('PutObject'));
    await store.open(traits).commitManifest(key, body('1'), null, { confirm });
    expect(seen).toEqual([0]);
    expect(store.server.requests.at(-1)).toMatchObject({ operation: 'PutObject' });
  });

  it('does not take place if the fence is lost', async () => {
    store = await openStore();
    const lost = async () => {
      throw new SluiceError('run.lease_lost');
    };
    const committed = store.open(traits).commitManifest(key, body('1'), null, { confirm: lost });
    expect(await codeOf(committed)).toBe('run.lease_lost');
    expect(store.server.objects('exports')).toEqual([]);
  });

  it('is not made, and the fence is not asked, at a store with working conditions', async () => {
    store = await openStore();
    const confirm = async () => {
      throw new SluiceError('run.lease_lost');
    };
    await store.open(allTraits).commitManifest(key, body('1'), null, { confirm });
    expect(await current()).toBe(String(body('1')));
  });
});

describe('a lease that ends', () => {
  const body1 = body('1');
  /** It ends once the agent has the connection open: no put is nearer to its end. */
  const endsOnConnect = () => {
    const lease = { isOver: false, asked: [] as boolean[] };
    class Agent extends HttpAgent {
      override createConnection(...given: Parameters<HttpAgent['createConnection']>) {
        const socket = super.createConnection(...given);
        socket?.once('connect', () => {
          lease.isOver = true;
        });
        return socket;
      }
    }
    const extend = async (always: boolean) => void lease.asked.push(always);
    const ends = { holds: () => !lease.isOver, extend };
    return { agent: new Agent({ keepAlive: true }), asked: lease.asked, lease: ends };
  };

  it('while the connection opens: nothing is sent', async () => {
    const { agent, lease, asked } = endsOnConnect();
    store = await openStore({}, { httpAgent: agent });
    const committed = store.open(allTraits).commitManifest(key, body1, null, { lease });
    expect([await codeOf(committed), asked]).toEqual(['run.lease_lost', [false]]);
    expect(store.server.requests).toEqual([]);
    agent.destroy();
  });

  it('between two tries: our database is asked, and no second one is sent', async () => {
    store = await openStore();
    store.fault('PutObject', { status: 503, code: 'SlowDown' });
    const asked: boolean[] = [];
    const lease = {
      holds: () => true,
      async extend(always: boolean) {
        asked.push(always);
        if (always) throw new SluiceError('run.lease_lost');
      },
    };
    const committed = store.open(allTraits).commitManifest(key, body1, null, { lease });
    expect([await codeOf(committed), asked]).toEqual(['run.lease_lost', [false, true]]);
    expect(store.sent('PutObject')).toBe(1);
  });
});

describe('a store that changes', () => {
  const change = async (quirks: S3Quirks, then: Partial<StoreTraits>) => {
    store = await openStore();
    const destination = store.open(allTraits);
    const { etag } = await destination.commitManifest(key, body('1'), null);
    store.server.setQuirks(quirks);
    await destination.commitManifest(key, body('2'), etag);
    expect(await current()).toBe(String(body('2')));
    expect(destination.traits).toEqual({ ...allTraits, ...then });
  };

  it('refuses a tag that it shows: is tried again, and the new form is kept', () =>
    change({ quotedIfMatch: 'refuse' }, { ifMatch: 'unquoted' }));

  it('answers 501: is tried again, and only the fence remains', () =>
    change({ ifMatch: 'refuse' }, { ifMatch: 'none' }));

  it('is tried again only once, if its answers disagree with the probe', async () => {
    store = await openStore();
    const destination = store.open(allTraits);
    const { etag } = await destination.commitManifest(key, body('1'), null);
    const refusal = { status: 412, code: 'PreconditionFailed' };
    const match = { operation: 'PutObject', key: /manifest/ } as const;
    store.server.faults.add({ match, times: 2, effect: refusal });
    let asked = 0;
    const confirm = async () => {
      asked += 1;
    };
    await destination.commitManifest(key, body('2'), etag, { confirm });
    expect(await current()).toBe(String(body('2')));
    expect([asked, destination.traits]).toEqual([1, { ...allTraits, ifMatch: 'none' }]);
    // A process that dies in the middle must leave no upload.
    const operations = store.server.requests.map(({ operation }) => operation);
    expect(operations).not.toContain('CreateMultipartUpload');
  });
});

it('a probe that is stopped in the middle aborts its upload', async () => {
  store = await openStore();
  const stop = new AbortController();
  const match = { operation: 'UploadPart' } as const;
  const part = store.server.faults.add({ match, effect: { halfOpen: true } });
  const stopped = store.destination.probe(stop.signal);
  stopped.catch(() => {});
  await until(() => part.hits === 1, { timeoutMs: 20_000 });
  stop.abort(new Error('the run was cancelled'));
  await expect(stopped).rejects.toThrow();
  expect(store.server.uploads('exports')).toEqual([]);
});
