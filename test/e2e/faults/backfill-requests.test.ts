import { beforeAll, describe, expect, test } from 'vitest';
import type { ApiAnswer } from '../../support/api-client.ts';
import { askOfExport, exportActions, otherBucket } from '../../support/export-requests.ts';
import {
  backfill,
  createS3Export,
  insertEvents,
  projectPath,
  retireExports,
} from '../../support/exported-events.ts';
import { bucket, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { casesOf } from '../../support/nightly.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

const actions = ['cancel', 'let finish', ...exportActions] as const;
type Action = (typeof actions)[number];
const states = ['queued', 'running', 'ended'] as const;
type State = (typeof states)[number];

/** Three intervals, one at a time. */
const range = { start: '2024-03-01T00:00:00Z', end: '2024-03-01T03:00:00Z' };

/** The documented outcome: of the request, of the backfill, and of each of its runs. */
function outcomeOf(state: State, action: Action) {
  const all = ['Completed', 'Completed', 'Completed'];
  const cancels = action === 'cancel' || action === 'let finish';
  const answer = action === 'delete' ? 204 : cancels && state === 'ended' ? 400 : 200;
  if (state === 'ended' || (!cancels && action !== 'delete')) {
    return { answer, status: 'Completed', runs: all };
  }
  const live = action === 'let finish' ? 'Completed' : 'Cancelled';
  return { answer, status: 'Cancelled', runs: state === 'running' ? [live] : [] };
}

/** The bucket of each interval's files once the export was moved. */
const movedTo: Record<State, readonly string[]> = {
  queued: [otherBucket, otherBucket, otherBucket],
  // A running attempt ends at the place where it began.
  running: [bucket, otherBucket, otherBucket],
  ended: [bucket, bucket, bucket],
};
const installation = useStage(() =>
  startInstallation({
    workers: 0,
    s3: { buckets: [bucket, otherBucket] },
    env: { WORKER_CONCURRENCY: '10', WORKER_MEMORY_MB: '4096' },
  }),
);
beforeAll(async () => {
  const team = installation.tenant.projectIds[0];
  await insertEvents(installation.pool, { team, rows: 90, ...range });
});

describe.each(casesOf<State>(['running'], ['queued', 'ended']))(
  'a backfill that is %s',
  (state) => {
    const seen = new Map<Action, { id: string; backfillId: string; answer: ApiAnswer }>();

    beforeAll(async () => {
      const failpoint = state === 'running' ? { FAILPOINTS: 'before_open=hold' } : {};
      const worker = state === 'queued' ? null : await installation.startWorker(failpoint);
      const made: [Action, string, string][] = [];
      for (const action of actions) {
        const id = await createS3Export(installation, { name: `${state}: ${action}` });
        made.push([action, id, await backfill(installation, id, range, { concurrency: 1 })]);
      }
      if (state === 'running') {
        const held = () => (worker?.output().split('failpoint before_open=').length ?? 0) - 1;
        await until(
          async () => held() >= actions.length && (await countRunning()) === actions.length,
          {
            message: 'each first run is held',
          },
        );
      }
      if (state === 'ended') await untilDone(made.map(([, , backfillId]) => backfillId));
      await Promise.all(
        made.map(async ([action, id, backfillId]) => {
          seen.set(action, { id, backfillId, answer: await ask(action, id, backfillId) });
        }),
      );
      for (const [action, , backfillId] of made) {
        const { status } = outcomeOf(state, action);
        if (status === 'Cancelled') expect(await statusOf(backfillId), action).toBe(status);
      }
      const another = worker ?? (await installation.startWorker());
      await untilDone(
        made.map(([, , backfillId]) => backfillId),
        // Each run that comes to the step is held anew.
        () => another.kill('SIGWINCH'),
      );
    });

    test.each(actions)('meets the request to %s as documented', async (action) => {
      const { answer, backfillId = '' } = seen.get(action) ?? {};
      const expected = outcomeOf(state, action);
      expect(answer?.status, answer?.text).toBe(expected.answer);
      expect(await statusOf(backfillId)).toBe(expected.status);
      const { rows } = await installation.pool.query<{ status: string }>(
        'select status from runs where backfill_id = $1 order by data_interval_start',
        [backfillId],
      );
      expect(rows.map((row) => row.status)).toEqual(expected.runs);
    });

    test('goes on in the bucket that its export has moved to', async () => {
      const { id = '' } = seen.get('bucket') ?? {};
      const places: [string, string][] = [];
      for (const name of [bucket, otherBucket]) {
        for (const { key } of await installation.s3.objects(name)) {
          if (key.startsWith(id) && key.endsWith('_manifest.json')) places.push([key, name]);
        }
      }
      expect(places.sort().map(([, name]) => name)).toEqual(movedTo[state]);
    });

    test('leaves nothing behind: all invariants hold', async () => {
      const left = [
        ...(await installation.s3.uploads(bucket)),
        ...(await installation.s3.uploads(otherBucket)),
      ];
      expect(left).toEqual([]);
      await expectInvariants(installation);
      await retireExports(installation);
      await installation.stopWorkers();
    });
  },
);

async function countRunning(): Promise<number> {
  const { rows } = await installation.pool.query<{ n: number }>(
    `select count(*)::int as n from runs where status = 'Running' and lease_expires_at > now()`,
  );
  return rows[0]?.n ?? 0;
}

async function statusOf(backfillId: string): Promise<string | undefined> {
  const { rows } = await installation.pool.query<{ status: string }>(
    'select status from backfills where id = $1',
    [backfillId],
  );
  return rows[0]?.status;
}

/** Waits until the backfills and their runs have ended. */
function untilDone(ids: readonly string[], meanwhile: () => void = () => {}): Promise<unknown> {
  return until(
    async () => {
      meanwhile();
      const { rowCount } = await installation.pool.query(
        `select from backfills where id = any ($1) and status = 'Running'
         union all select from runs where backfill_id = any ($1) and status in ('Starting', 'Running')`,
        [ids],
      );
      return rowCount === 0;
    },
    { timeoutMs: 60_000, everyMs: 100, message: 'the backfills have ended' },
  );
}

function ask(action: Action, id: string, backfillId: string): Promise<ApiAnswer> {
  if (action !== 'cancel' && action !== 'let finish') {
    return askOfExport(installation, action, id, 'day');
  }
  return installation.client.post(
    `${projectPath(installation)}/batch_exports/${id}/backfills/${backfillId}/cancel/`,
    { running: action === 'cancel' ? 'cancel' : 'finish' },
  );
}
