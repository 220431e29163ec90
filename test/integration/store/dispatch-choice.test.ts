import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { dispatchWaiting } from '../../../src/service/admission/dispatch-runs.ts';
import { organizationShare, pickFair } from '../../../src/service/admission/fairness.ts';
import type { QueuedRun } from '../../../src/foundation/domain/run.ts';
import { readDispatchState } from '../../../src/state/store/runs/outbox.ts';
import { reportWorker } from '../../../src/state/store/runs/workers.ts';
import { createExportOfThePast } from '../../support/run-side.ts';
import { createTenant } from '../../support/tenants.ts';
import { useRunSide } from '../../support/use-run-side.ts';
import { randomOf } from '../../chaos/storm/random.ts';

const side = useRunSide();
const slots = { large: 3, small: 8 } as const;
/** As the dispatcher's, but all of what waits. */
const wholeLists = { most: 1_000_000, isShort: false, mayCut: false, perTurn: 4 } as const;
const limits = { maxRunsPerExport: 3, maxRunsPerTenant: 12 } as const;

/** What a dispatcher chooses that reads all that waits. */
async function chooseOfAll(): Promise<readonly string[]> {
  const { waiting, queued, executing } = await readDispatchState(side.db, wholeLists);
  const inFlight = [...queued, ...executing];
  const chosen: QueuedRun[] = [];
  for (const isSmall of [false, true]) {
    const isFor = ({ small = false }: QueuedRun) => small === isSmall;
    const capacity = isSmall ? slots.small : slots.large;
    const rules = {
      perOrganization: () => organizationShare(capacity),
      perProject: limits.maxRunsPerTenant,
      perExport: limits.maxRunsPerExport,
      perBackfill: () => Number.POSITIVE_INFINITY,
      perTurn: isSmall ? 4 : 1,
    };
    const own = inFlight.filter(isFor);
    const beside = [...inFlight.filter((run) => !isFor(run)), ...chosen];
    const free = 2 * capacity - queued.filter(isFor).length;
    chosen.push(...pickFair(waiting.filter(isFor), own, rules, free, beside));
  }
  return chosen.map(({ runId }) => runId);
}

it.each([
  { tenants: 8, worlds: 25, rounds: 4 },
  // More than the slots have room for: then most are left out.
  { tenants: 70, worlds: 4, rounds: 8 },
])(
  'a dispatcher that leaves runs of up to $tenants tenants out chooses what one would choose that reads all',
  async ({ tenants: most, worlds, rounds }) => {
    const random = randomOf(7, 'outbox');
    const below = (n: number) => Math.floor(random.between(0, n));
    const context = side.withPolicy(limits);
    await reportWorker(side.db, 'one', slots.large, slots.small);
    for (let world = 0; world < worlds; world += 1) {
      await side.db.query('truncate outbox');
      await side.db.query(`update runs set status = 'Cancelled', finished_at = now()`);
      const tenants = Math.max(most > 10 ? 40 : 1, below(most));
      for (let n = 0; n < tenants; n += 1) {
        const { projectIds } = await createTenant(side.db);
        for (const teamId of projectIds.slice(0, 1 + below(2))) {
          for (let exports = below(4); exports >= 0; exports -= 1) {
            const { id } = await createExportOfThePast(side, { teamId });
            await addRuns(id, { live: below(9), backfilled: below(12), small: below(3) > 0 });
          }
        }
      }
      // Rounds, so that some are queued and some executing.
      for (let round = 0; round < rounds; round += 1) {
        const expected = await chooseOfAll();
        const enqueued: string[] = [];
        await dispatchWaiting(context, async (entries) => {
          enqueued.push(...entries.map(({ runId }) => runId));
        });
        expect(enqueued, `world ${world}, round ${round}`).toEqual(expected);
        await endSome(below(10));
      }
    }
  },
);

it('a tenant with many runs gets what the few of others leave', async () => {
  await reportWorker(side.db, 'one', slots.large, slots.small);
  await side.db.query('truncate outbox');
  await side.db.query(`update runs set status = 'Cancelled', finished_at = now()`);
  const many = await createExportOfThePast(side);
  await addRuns(many.id, { live: 0, backfilled: 20, small: true });
  for (let n = 0; n < 6; n += 1) {
    const { projectIds } = await createTenant(side.db);
    const { id } = await createExportOfThePast(side, { teamId: projectIds[0] });
    await addRuns(id, { live: 1, backfilled: 0, small: true });
  }
  let count = 0;
  await dispatchWaiting(side.withPolicy(limits), async (entries) => {
    count += entries.length;
  });
  expect(count).toBe(6 + organizationShare(slots.small));
});

it('those whose exports may begin no more runs hide no other organization', async () => {
  await reportWorker(side.db, 'one', slots.large, slots.small);
  await side.db.query('truncate outbox');
  await side.db.query(`update runs set status = 'Cancelled', finished_at = now()`);
  const context = side.withPolicy({ ...limits, maxRunsPerExport: 1 });
  const enqueue = async () => {
    const runIds: string[] = [];
    await dispatchWaiting(context, async (entries) => {
      runIds.push(...entries.map(({ runId }) => runId));
    });
    return runIds;
  };
  // A large run of each is executed, and its older small runs would go first.
  for (let n = 0; n < 2 * 2 * slots.small; n += 1) {
    const { projectIds } = await createTenant(side.db);
    const { id } = await createExportOfThePast(side, { teamId: projectIds[0] });
    await addRuns(id, { live: 3, backfilled: 0, small: true });
    await side.db.query(
      `insert into runs (export_id, team_id, data_interval_start, data_interval_end, status, lease_expires_at)
       select id, team_id, now() - interval '1 day', now() - interval '23 hours', 'Running', now() + interval '1 hour' from batch_exports where id = $1`,
      [id],
    );
  }
  const { projectIds } = await createTenant(side.db);
  const last = await createExportOfThePast(side, { teamId: projectIds[0] });
  await addRuns(last.id, { live: 1, backfilled: 0, small: true });
  const [entry] = await side.db.query<{ runId: string }>(
    'select run_id as "runId" from outbox where export_id = $1',
    [last.id],
  );
  expect(await enqueue()).toEqual([entry?.runId]);
});

it('as many organizations are read as the queue has room for, however many wait', async () => {
  await reportWorker(side.db, 'one', slots.large, slots.small);
  await side.db.query('truncate outbox');
  await side.db.query(`update runs set status = 'Cancelled', finished_at = now()`);
  for (let n = 0; n < 100; n += 1) {
    const { projectIds } = await createTenant(side.db);
    const { id } = await createExportOfThePast(side, { teamId: projectIds[0] });
    await addRuns(id, { live: 5, backfilled: 0, small: true });
  }
  const { waiting } = await readDispatchState(side.db, {
    ...{ most: 200, isShort: true, mayCut: true, perTurn: 4 },
  });
  const seen = new Set(waiting.map(({ organizationId }) => organizationId));
  expect(seen.size).toBe(2 * 2 * slots.small);
});

interface Wanted {
  readonly live: number;
  readonly backfilled: number;
  readonly small: boolean;
}

async function addRuns(exportId: string, { live, backfilled, small }: Wanted): Promise<void> {
  const backfillId = backfilled > 0 ? randomUUID() : null;
  await side.db.query(
    `with b as (
       insert into backfills (id, export_id, team_id, start_at, end_at, concurrency, total_runs)
       select $2, id, team_id, now() - interval '1 day', now(), 5, 5 from batch_exports where id = $1 and $2::uuid is not null
     ), r as (
       insert into runs (export_id, team_id, backfill_id, data_interval_start, data_interval_end)
       select e.id, e.team_id, case when n > $3 then $2::uuid end, now() - make_interval(mins => 5 * n), now() - make_interval(mins => 5 * n - 5)
         from batch_exports e, generate_series(1, $3::int + $4::int) n where e.id = $1
       returning *
     )
     insert into outbox (run_id, team_id, export_id, backfill_id, data_interval_start, available_at, ready, small)
     select id, team_id, export_id, backfill_id, data_interval_start, now(), true, $5 from r`,
    [exportId, backfillId, live, backfilled, small],
  );
}

/** Of the queued runs some begin, and some end. */
async function endSome(count: number): Promise<void> {
  await side.db.query(
    `with begun as (
       update runs set status = 'Running', lease_expires_at = now() + interval '1 hour'
        where id in (select run_id from outbox where dispatched_at is not null order by run_id limit $1) returning id
     )
     delete from outbox where run_id in (select id from begun)`,
    [count],
  );
  await side.db.query(
    `update runs set status = 'Cancelled', finished_at = now()
      where id in (select id from runs where status = 'Running' order by id limit $1)`,
    [Math.floor(count / 2)],
  );
}
