import { createHash, randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import { SluiceError } from '../../src/foundation/domain/errors.ts';
import { codeOf } from '../conformance/destination-suite.ts';
import { attempt, firstJob, manifestPath, openIntervalBench } from '../support/interval-bench.ts';
import { bucket, denied, type OpenedStore, openStore } from '../support/s3-destination.ts';
import { useStage } from '../support/use-stage.ts';

/** Credentials that may put and delete, but neither read nor list. */

const bench = useStage(() => openIntervalBench(10));
let store: OpenedStore;

afterEach(() => store?.close());

const start = async (config: Readonly<Record<string, unknown>> = {}) => {
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
    const destination = await start();
    let job = firstJob();
    for (const number of [1, 2, 3]) {
      const made = attempt(bench, destination, { ...job, attempt: number, generation: number });
      await made.exported;
      expect(manifestAtStore()).toMatchObject({ attempt: number });
      job = { ...job, intent: made.intent, begunManifests: made.intent?.begunManifests ?? [] };
    }
  });

  it('replace no manifest of a later commit', async () => {
    const destination = await start();
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
    const destination = await start();
    const put = { operation: 'PutObject', key: /_manifest/ } as const;
    store.server.faults.add({ match: put, effect: { loseResponse: true } });
    await attempt(bench, destination, firstJob()).exported;
    expect(manifestAtStore()).toMatchObject({ attempt: 1 });
  });

  it.each([
    ['without encryption', null, /s3:GetObject/],
    ['with KMS', 'aws:kms', /KMS.*s3:GetObject/],
  ])('say that they need to read, if the manifest is unknown, %s', async (_, encryption, text) => {
    const destination = await start({ encryption });
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
