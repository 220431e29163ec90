import { beforeAll, describe, expect, test } from 'vitest';
import { insertRuns } from '../../../src/state/store/runs/runs.ts';
import type { ApiAnswer } from '../../support/api-client.ts';
import {
  createS3Export,
  insertEvents,
  projectPath,
  type RunRow,
  readRuns,
  retireExports,
  untilEnded,
} from '../../support/exported-events.ts';
import {
  bucket,
  type Installation,
  startInstallation,
  testedQueues,
} from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { atNight, casesOf } from '../../support/nightly.ts';
import type { TestProcess } from '../../support/processes.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

/** What a user may ask for while a run is in any state. */
const actions = ['cancel', 'pause', 'delete', 'rename', 'cadence', 'bucket', 'prefix'] as const;
type Action = (typeof actions)[number];

/** That `bucket` moves an export to. */
const otherBucket = 'exports-2';

/** Which part of its file the store is slow to take. */
const sending = { 'at its first part': 1, 'between its parts': 2 } as const;
const committing = {
  'about to complete its file': 'before_complete',
  'about to commit': 'before_manifest',
} as const;
const states = [
  'Starting',
  'at its first part',
  'between its parts',
  'about to complete its file',
  'about to commit',
  'waiting for retry',
  'Completed',
] as const;
type State = (typeof states)[number];
type Sending = keyof typeof sending;
type Committing = keyof typeof committing;
const isSending = (state: State): state is Sending => Object.hasOwn(sending, state);
/** From here on its files become readable, and the run completes whatever is asked. */
const isCommitting = (state: State): state is Committing => Object.hasOwn(committing, state);

const rowBytes = 4_000;
/** Days whose rows make one short part, one of 5 MiB and a short one, and three and a short one. */
const small = { start: '2024-03-01T00:00:00Z', end: '2024-03-02T00:00:00Z', rows: 50 };
const medium = { start: '2024-03-02T00:00:00Z', end: '2024-03-03T00:00:00Z', rows: 1_400 };
const large = { start: '2024-03-03T00:00:00Z', end: '2024-03-04T00:00:00Z', rows: 4_100 };

/** A run is between its parts while one is on its way and another waits: then there are more than two. */
function dayOf(state: State) {
  if (state === 'between its parts') return large;
  return state === 'at its first part' || state === 'waiting for retry' ? medium : small;
}

/** The documented outcome of each request in each state. */
function outcomeOf(state: State, action: Action) {
  const ends = action === 'cancel' || action === 'delete';
  // A running attempt ends at the place where it began.
  const began = isSending(state) || isCommitting(state) || state === 'Completed';
  const final = ends && !isCommitting(state) && state !== 'Completed' ? 'Cancelled' : 'Completed';
  const cancelAnswer = isCommitting(state) ? 409 : state === 'Completed' ? 400 : 200;
  return {
    answer: action === 'cancel' ? cancelAnswer : action === 'delete' ? 204 : 200,
    soon:
      final === 'Cancelled' || state === 'Completed'
        ? final
        : state === 'Starting'
          ? 'Starting'
          : 'Running',
    final,
    bucket: action === 'bucket' && !began ? otherBucket : bucket,
    folder: action === 'prefix' && !began ? 'moved' : 'here',
  };
}

// All of it on one queue; at night what the queue has most to do with on the other.
for (const queue of casesOf(testedQueues().slice(0, 1), testedQueues().slice(1))) {
  const tested: readonly State[] =
    queue === 'postgres'
      ? casesOf(
          // No wait for a time: its commit is held.
          ['about to commit'],
          [
            'at its first part',
            'Starting',
            'between its parts',
            'about to complete its file',
            'waiting for retry',
            'Completed',
          ],
        )
      : ['Starting', 'at its first part'];

  describe(`on the queue in ${queue}`, () => {
    const installation = useStage(() =>
      startInstallation({
        queue,
        workers: 0,
        s3: { buckets: [bucket, otherBucket] },
        env: {
          WORKER_CONCURRENCY: '10',
          // A run that was expected to be small begins again as a large one.
          WORKER_SMALL_RUNS: '0',
          WORKER_MEMORY_MB: '4096',
          RETRY_BASE_SECONDS: '3600',
          BACKFILL_CONCURRENCY: '9',
          MAX_RUNS_PER_TENANT: '20',
        },
      }),
    );
    beforeAll(async () => {
      const team = installation.tenant.projectIds[0];
      for (const day of [small, medium, large]) {
        await insertEvents(installation.pool, { team, rowBytes, ...day });
      }
    });

    describe.each(tested)('a run in the state %s', (state) => {
      const seen = new Map<Action, { id: string; answer: ApiAnswer; soon: RunRow | undefined }>();

      beforeAll(async () => {
        const { ids, release } = await bringTo(installation, state);
        const asked = await Promise.all(
          actions.map(async (action) => {
            const id = ids.get(action) ?? '';
            const answer = await ask(installation, action, id);
            return [action, { id, answer }] as const;
          }),
        );
        const runs = new Map<Action, RunRow | undefined>();
        for (const [action, { id }] of asked) {
          runs.set(action, (await readRuns(installation, id))[0]);
        }
        for (const [action, one] of asked) seen.set(action, { ...one, soon: runs.get(action) });
        if (state === 'waiting for retry') {
          // No worker has these runs: their attempts have aborted their uploads.
          const left = ['cancel', 'delete', 'bucket'].map((action) => ids.get(action as Action));
          await until(
            async () => !(await uploadKeys(installation)).some((key) => left.includes(key)),
            { message: 'abandoned uploads are aborted' },
          );
        }
        await release();
        for (const { id } of seen.values()) await untilEnded(installation, id);
        await until(async () => (await uploadKeys(installation)).length === 0, {
          message: 'no upload is left',
        });
      });

      test.each(actions)('meets the request %s as documented', async (action) => {
        const { id, answer, soon } = seen.get(action) ?? { id: '' };
        const expected = outcomeOf(state, action);
        expect(answer?.status, answer?.text).toBe(expected.answer);
        expect(soon?.status).toBe(expected.soon);
        const [run] = await readRuns(installation, id);
        expect(run?.status).toBe(expected.final);
        const files = await filesOf(installation, id);
        const place = `${expected.bucket}/${expected.folder}`;
        const last = expected.final === 'Completed' ? [place, place] : [];
        // Its file and its manifest, and nothing anywhere else.
        expect(files).toEqual(last);
      });

      atNight('an interval that has moved runs again at the new place', async () => {
        for (const action of ['bucket', 'prefix'] as const) {
          const id = seen.get(action)?.id ?? '';
          const [run] = await readRuns(installation, id);
          const path = `${projectPath(installation)}/batch_exports/${id}/runs/${run?.id}/retry/`;
          expect((await installation.client.post(path, {})).status).toBe(201);
        }
        for (const action of ['bucket', 'prefix'] as const) {
          const id = seen.get(action)?.id ?? '';
          const [, again] = await untilEnded(installation, id, { count: 2 });
          expect(again).toMatchObject({ status: 'Completed', rows: dayOf(state).rows, faults: 0 });
          const former = outcomeOf(state, action);
          // Under another prefix the interval is replaced; in a bucket that was left it stays.
          const expected =
            action === 'prefix'
              ? [`${bucket}/moved`, `${bucket}/moved`]
              : [...new Set([otherBucket, former.bucket])].flatMap((name) => [
                  `${name}/here`,
                  `${name}/here`,
                ]);
          // What was replaced is removed after the run is recorded.
          await until(async () => String(await filesOf(installation, id)) === String(expected), {
            message: `the files are ${expected}`,
          });
        }
      });

      test('all invariants hold after it', async () => {
        await expectInvariants(installation);
        await retireExports(installation);
        await installation.stopWorkers();
      });
    });
  });
}

/** One export for each action, with a run in the state. `release` lets the runs go on. */
async function bringTo(installation: Installation, state: State) {
  const { db, pool, sql, s3, tenant } = installation;
  const ids = new Map<Action, string>();
  for (const action of actions) {
    const config = { prefix: '{batch_export_id}/here' };
    ids.set(
      action,
      await createS3Export(installation, { name: `${state} ${action}`, interval: 'day', config }),
    );
  }
  const { start, end } = dayOf(state);
  const interval = { start: Date.parse(start), end: Date.parse(end) };
  const begin = () =>
    insertRuns(
      db,
      [...ids.values()].map((exportId) => ({
        exportId,
        teamId: tenant.projectIds[0],
        interval,
        backfillId: null,
      })),
    );

  if (isSending(state)) {
    for (const id of ids.values()) {
      const match = { operation: 'UploadPart', key: new RegExp(id), nth: sending[state] } as const;
      await s3.faults.add({ match, effect: { halfOpen: true } });
    }
    await installation.startWorker();
    await begin();
    await until(async () => (await countSent(installation)) >= ids.size * sending[state], {
      message: 'each run waits for the store',
    });
    // Until the stall is noticed and the part is sent again.
    return { ids, release: async () => {} };
  }
  if (isCommitting(state)) {
    const failpoint = committing[state];
    const worker = await installation.startWorker({ FAILPOINTS: `${failpoint}=hold` });
    await begin();
    await untilHit(worker, failpoint, ids.size);
    return {
      ids,
      async release() {
        worker.kill('SIGWINCH');
        for (const id of ids.values()) await untilEnded(installation, id);
        await installation.stopWorkers();
        await installation.startWorker();
      },
    };
  }
  if (state === 'waiting for retry') {
    const spec = 'first_part=error(destination.unavailable)';
    const worker = await installation.startWorker({ FAILPOINTS: spec });
    const made = await begin();
    const faults = async () =>
      pool.query(`select from runs where id = any ($1) and faults = 1`, [made]);
    await until(async () => (await faults()).rowCount === made.length);
    const wait = (time: string) =>
      sql`update outbox set available_at = now() + ${time}, ready = false
        where run_id = any (${made})`;
    await wait('1 hour');
    worker.kill('SIGTERM');
    await worker.waitForExit();
    await installation.startWorker();
    return { ids, release: async () => void (await wait('0')) };
  }
  await begin();
  if (state === 'Starting')
    return { ids, release: async () => void (await installation.startWorker()) };
  await installation.startWorker();
  for (const id of ids.values()) await untilEnded(installation, id);
  return { ids, release: async () => {} };
}

/** Uploads that are begun, and parts that have arrived. */
async function countSent({ s3 }: Installation): Promise<number> {
  const uploads = await s3.uploads(bucket);
  return uploads.reduce((sum, { parts }) => sum + 1 + parts.length, 0);
}

function untilHit(worker: TestProcess, failpoint: string, times: number): Promise<unknown> {
  const hits = () => worker.output().split(`failpoint ${failpoint}=`).length - 1;
  return until(() => hits() >= times, {
    message: () => `${hits()} of ${times} runs are held at ${failpoint}`,
  });
}

async function ask(installation: Installation, action: Action, id: string): Promise<ApiAnswer> {
  const { client } = installation;
  const path = `${projectPath(installation)}/batch_exports/${id}/`;
  const move = (config: object) => client.patch(path, { destination: { config } });
  switch (action) {
    case 'cancel': {
      const [run] = await readRuns(installation, id);
      return client.post(`${path}runs/${run?.id}/cancel/`);
    }
    case 'pause':
      return client.post(`${path}pause/`);
    case 'delete':
      return client.delete(path);
    case 'rename':
      return client.patch(path, { name: 'renamed' });
    case 'cadence':
      return client.patch(path, { interval: 'hour' });
    case 'bucket':
      return move({ bucket_name: otherBucket });
    case 'prefix':
      return move({ prefix: '{batch_export_id}/moved' });
  }
}

/** `<bucket>/<folder>` of each object of an export, sorted. */
async function filesOf({ s3 }: Installation, exportId: string): Promise<readonly string[]> {
  const found: string[] = [];
  for (const name of [bucket, otherBucket]) {
    for (const { key } of await s3.objects(name)) {
      const [id, folder] = key.split('/');
      if (id !== exportId) continue;
      const text = key.endsWith('_manifest.json') ? String(await s3.body(name, key)) : '';
      // A manifest whose interval has moved on names no files.
      if (!text.includes('"moved_to"')) found.push(`${name}/${folder}`);
    }
  }
  return found.sort();
}

/** The export of each open upload. */
async function uploadKeys({ s3 }: Installation): Promise<readonly string[]> {
  const uploads = [...(await s3.uploads(bucket)), ...(await s3.uploads(otherBucket))];
  return uploads.map(({ key }) => key.split('/')[0] ?? '');
}
