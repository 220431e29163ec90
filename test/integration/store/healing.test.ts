import { beforeEach, describe, expect, it } from 'vitest';
import { decidedByPeople } from '../../../src/foundation/domain/causes.ts';
import {
  type ErrorCode,
  errorCatalogue,
  SluiceError,
} from '../../../src/foundation/domain/errors.ts';
import { pauseExport } from '../../../src/service/use-cases/exports/pause-export.ts';
import { heal } from '../../../src/service/use-cases/healing/heal.ts';
import {
  quarantineRun,
  recordDeathAlone,
  recordFault,
} from '../../../src/service/use-cases/runs/finish-run.ts';
import { healNow } from '../../../src/state/store/healing/healing.ts';
import { attemptsOf, placeOf } from '../../support/attempts-at-places.ts';
import { firstByDay } from '../../support/nightly.ts';
import { hourMs, useRunSide } from '../../support/run-side.ts';

const side = useRunSide({ retry: { maxAttempts: 2, baseMs: 1, capMs: 1 }, secondOpinionMs: 0 });
const unavailable = new SluiceError('destination.unavailable');
const rejected = new SluiceError('destination.invalid_credentials');
const tooLarge = new SluiceError('source.row_too_large');
const works = placeOf(null);

beforeEach(() => side.sql`update batch_exports set deleted_at = now()`);

const { attempt, work, comeDue } = attemptsOf(side);

const stateOf = async (exportId: string) =>
  (await side.listRuns(exportId)).map(({ status }) => status);

async function exportsOf(number: number, hours = 3): Promise<string[]> {
  const ids: string[] = [];
  while (ids.length < number) {
    ids.push((await side.createExport({ createdMsAgo: hours * hourMs })).id);
  }
  await side.decide();
  return ids;
}

/** An export whose intervals all failed since its destination was unreachable. */
async function brokenExport(hours = 3): Promise<string> {
  const [id = ''] = await exportsOf(1, hours);
  await work([id], placeOf(unavailable));
  return id;
}

const holesOf = (exportIds: readonly string[]) =>
  side.sql`select from holes where export_id = any (${exportIds}::uuid[])`;

const startsOf = async (exportId: string) => [
  ...new Set((await side.listRuns(exportId)).map(({ start }) => start)),
];

/** Every time comes at once, as often as that. */
async function sweep(ids: readonly string[], place: Parameters<typeof work>[1], sweeps: number) {
  for (let swept = 0; swept < sweeps; swept += 1) {
    await comeDue();
    await heal(side.context);
    await work(ids, place);
  }
}

it('heals oldest first, in the lane of its export behind live runs, at most as many as a backfill', async () => {
  const id = await brokenExport(5);
  expect(await heal(side.context), 'a minute has not passed').toBe(0);
  await comeDue();
  // Two sweeps at once make no run more than one.
  await Promise.all([heal(side.context), heal(side.context)]);
  const runs = await side.sql<{ lane: string; heals: boolean; lined: boolean; start: string }>`
    select o.backfill_id as lane, r.heals, o.heals as lined, r.data_interval_start as start from outbox o
      join runs r on r.id = o.run_id
      where r.export_id = ${id} order by r.data_interval_start`;
  const oldest = (await startsOf(id)).slice(0, 2);
  expect(runs).toEqual(oldest.map((start) => ({ lane: id, heals: true, lined: true, start })));
  await work([id], works);
  await sweep([id], works, 2);
  expect(await holesOf([id])).toEqual([]);
});

it('waits longer and longer while nothing of the export works, and a success ends the wait', async () => {
  const [id = ''] = await exportsOf(1, 4);
  const place = placeOf(unavailable);
  await work([id], place);
  const waits = async () => {
    const minutes = await side.sql.value`
      select extract(epoch from heal_after - now()) / 60 from batch_exports where id = ${id}`;
    return minutes === null ? null : Number(minutes);
  };
  await sweep([id], place, 6);
  expect(await waits()).toBeGreaterThan(0.9);
  expect(await waits()).toBeLessThan(2);
  const before = place.requests;
  await sweep([id], place, 1);
  expect(place.requests, 'one attempt of the export').toBe(before + 1);
  await side.sql`update batch_exports set heal_failures = 90 where id = ${id}`;
  await sweep([id], place, 1);
  expect(await waits()).toBeGreaterThan(59);
  expect(await waits()).toBeLessThan(61);
  await sweep([id], works, 1);
  expect(await waits()).toBe(null);
  // The rest need not wait for its time.
  for (const _ of Array(2)) {
    await heal(side.context);
    await work([id], works);
  }
  expect(await holesOf([id])).toEqual([]);
});

it('tries each export for itself: what fails for one keeps no other', async () => {
  // Its intervals are the oldest of all.
  const [dead = ''] = await exportsOf(1, 4);
  const [alive = ''] = await exportsOf(1);
  await work([dead, alive], placeOf(unavailable));
  const bucket = placeOf(new SluiceError('destination.throttled'));
  await sweep([dead, alive], (_start, id) => (id === dead ? bucket : works), 3);
  expect(await holesOf([dead])).toHaveLength(4);
  expect(await holesOf([alive])).toEqual([]);
});

describe.each(firstByDay(1, [2, 1]))('with %i at a time', (backfillConcurrency) => {
  it.each([
    ['a reason of its own', tooLarge],
    ['what looks like an outage', new SluiceError('destination.stalled')],
  ])('an interval that cannot work for %s waits alone', async (_why, error) => {
    const id = await brokenExport(6);
    const [oldest] = await startsOf(id);
    const poison = placeOf(error);
    const context = side.withPolicy({ backfillConcurrency });
    await comeDue();
    for (let swept = 0; swept < 8; swept += 1) {
      await heal(context);
      await work([id], (start) => (start === oldest ? poison : works));
    }
    expect(await holesOf([id])).toHaveLength(1);
    expect(poison.requests).toBe(1);
  });
});

it('an interval that cannot get a run keeps no other back', async () => {
  const id = await brokenExport(3);
  // Its bounds are those of another cadence, and a newer run covers a part of it.
  await side.sql`
    update runs set data_interval_start = data_interval_start + interval '10 minutes', status = 'Starting',
      finished_at = null, error_code = null
      where id = (select id from runs where export_id = ${id} order by data_interval_start limit 1)`;
  const context = side.withPolicy({ backfillConcurrency: 1 });
  await comeDue();
  expect(await heal(context)).toBe(1);
});

it('the schedule of an export that fails asks nothing: its intervals heal with the others', async () => {
  const [id = ''] = await exportsOf(1, 2);
  const place = placeOf(unavailable);
  await work([id], place);
  await sweep([id], place, 7);
  const before = place.requests;
  await side.sql`insert into runs (export_id, team_id, data_interval_start, data_interval_end)
     select id, team_id, date_trunc('hour', now(), 'UTC'), date_trunc('hour', now(), 'UTC') + interval '1 hour'
       from batch_exports where id = ${id}`;
  const fresh = (await side.listRuns(id)).find(({ status }) => status === 'Starting');
  await side.sql`
    insert into outbox (run_id, team_id, export_id, data_interval_start)
      select id, team_id, export_id, data_interval_start from runs where id = ${fresh?.id}`;
  await attempt(fresh?.id ?? '', place);
  expect(place.requests).toBe(before);
  const [run] = await side.sql`
    select status, error_code as code,
      latest_error ~ 'No attempt was made.*check that the destination works.*by itself' as said from runs
      where id = ${fresh?.id}`;
  expect(run).toEqual({ status: 'FailedRetryable', code: 'destination.unavailable', said: true });
  // What a person asks for is attempted.
  await attempt(await side.retry({ exportId: id, runId: fresh?.id }), place);
  expect(place.requests).toBe(before + 1);
  await sweep([id], works, 3);
  expect(await holesOf([id])).toEqual([]);
});

describe('what a person must decide', () => {
  it('has one list in the code and in the database', async () => {
    const codes = await side.sql.values<ErrorCode>`
      select code from unnest(${Object.keys(errorCatalogue)}::text[]) as c (code)
        where is_decided_by_people(code)`;
    expect(new Set(codes)).toEqual(decidedByPeople);
  });

  it.each([...decidedByPeople])('does not heal after %s, whatever it was before', async (code) => {
    const id = await brokenExport(1);
    await sweep([id], placeOf(new SluiceError(code)), 1);
    const runs = (await stateOf(id)).length;
    await sweep([id], works, 3);
    expect(await stateOf(id)).toHaveLength(runs);
    expect(await holesOf([id])).toHaveLength(1);
  });

  it('stops the export at once if another database writes to its bucket: no other interval is tried', async () => {
    const id = await brokenExport(4);
    const context = side.withPolicy({ backfillConcurrency: 1 });
    await comeDue();
    await heal(context);
    await work([id], placeOf(new SluiceError('run.unknown_history')));
    const paused = () =>
      side.sql`select paused, paused_code as code from batch_exports where id = ${id}`;
    expect(await paused()).toEqual([{ paused: true, code: 'run.unknown_history' }]);
    const runs = (await stateOf(id)).length;
    await healNow(side.db, id);
    await sweep([id], works, 3);
    expect(await stateOf(id)).toHaveLength(runs);
    expect(await paused()).toEqual([{ paused: true, code: 'run.unknown_history' }]);
  });

  it.each(['by healing', 'by a backfill'])(
    'so does one that Sluice had paused before for another reason, if it is met %s',
    async (how) => {
      const id = await brokenExport(4);
      const reason = 'destination.invalid_credentials: refused';
      await side.sql`
        update batch_exports set paused = true, paused_reason = ${reason},
          paused_code = 'destination.invalid_credentials', last_paused_at = now() where id = ${id}`;
      await comeDue();
      await heal(side.withPolicy({ backfillConcurrency: 1 }));
      if (how === 'by a backfill') {
        await side.sql`with made as (
           insert into backfills (export_id, team_id, start_at, end_at, concurrency, total_runs, planned_to)
           select id, team_id, now() - interval '20 hours', now(), 2, 20, now() - interval '9 hours' from batch_exports
             where id = ${id} returning id)
         update runs set heals = false, backfill_id = (select id from made) where export_id = ${id}
           and finished_at is null`;
      }
      await work([id], placeOf(new SluiceError('run.unknown_history')));
      const runs = (await stateOf(id)).length;
      await healNow(side.db, id);
      await sweep([id], works, 3);
      expect(await stateOf(id)).toHaveLength(runs);
      const [row] = await side.sql`
        select paused, paused_code as code, paused_reason ~ '^run.unknown_history' as said from batch_exports
          where id = ${id}`;
      expect(row).toEqual({ paused: true, code: 'run.unknown_history', said: true });
    },
  );

  it('includes what ended its processes: it gets no new run without its deaths', async () => {
    const id = await brokenExport(2);
    await comeDue();
    await heal(side.context);
    const healing = (await side.listRuns(id)).filter(({ waits }) => waits);
    const run = await side.claim(healing[0]?.id ?? '');
    await quarantineRun(side.context, run, 'SIGSEGV.');
    await sweep([id], works, 3);
    const newest = (await side.listRuns(id)).filter(({ start }) => start === healing[0]?.start);
    expect(newest.map(({ status }) => status)).toEqual(['FailedRetryable', 'Failed']);
    expect(await holesOf([id])).toHaveLength(1);
  });

  it('counts the deaths of all runs that Sluice makes of an interval, whatever they end with', async () => {
    const id = await brokenExport(1);
    const killed = 'SIGKILL: it may have been killed from outside';
    const deaths: unknown[] = [];
    for (let swept = 0; swept < 4; swept += 1) {
      await comeDue();
      await heal(side.context);
      const run = (await side.listRuns(id)).find(({ waits }) => waits);
      if (!run) break;
      // Two workers died, then its own process.
      await side.sql`
        update runs set crashes = greatest(crashes, 2), furthest_bytes = 7 where id = ${run.id}`;
      const held = await side.claim(run.id);
      deaths.push(held.crashes);
      await recordDeathAlone(side.context, held, { certain: false, how: killed });
    }
    expect(deaths).toEqual([2, 2]);
    const [last] = await side.sql`
      select error_code as code, furthest_bytes::int as bytes from runs where export_id = ${id}
        order by generation desc limit 1`;
    expect(last).toEqual({ code: 'run.crashed', bytes: 7 });
    expect(await holesOf([id])).toHaveLength(1);
  });

  it('includes what a person has decided, or does not want to heal', async () => {
    const [cancelled = '', off = '', paused = ''] = await exportsOf(3, 1);
    await side.sql`update batch_exports set heal_for_hours = 0 where id = ${off}`;
    await work([cancelled, off, paused], placeOf(unavailable));
    await pauseExport(side.context, side.actor, paused);
    const [failed] = await side.listRuns(cancelled);
    const runId = await side.retry({ exportId: cancelled, runId: failed?.id });
    await side.cancel({ exportId: cancelled, runId });
    await comeDue();
    expect(await heal(side.context)).toBe(0);
    // Longer hours heal it from now on.
    await side.sql`update batch_exports set paused = false where id = ${paused}`;
    expect(await heal(side.context)).toBe(1);
  });
});

it('ends a pause that only Sluice made, and exports what the pause missed', async () => {
  const context = side.withPolicy({ pauseAfterFailures: 2 });
  const [id = ''] = await exportsOf(1, 2);
  for (const { id: runId } of await side.listRuns(id)) {
    for (;;) {
      const [row] = await side.sql`select from outbox where run_id = ${runId}`;
      if (!row) break;
      await recordFault(context, await side.claim(runId), rejected, 0);
    }
  }
  const paused = () =>
    side.sql<{ paused: boolean }>`select paused from batch_exports where id = ${id}`;
  expect(await paused()).toEqual([{ paused: true }]);
  // It was paused for three hours, in which three ticks came.
  await side.sql`update batch_exports set last_paused_at = now() - interval '3 hours',
            schedule = jsonb_set(schedule, '{gates}', (select jsonb_agg(case when g->'pausedSince' = 'null' then g
              else g || jsonb_build_object('since', (g->>'since')::bigint - 10800000, 'pausedSince',
                (g->>'pausedSince')::bigint - 10800000) end)
              from jsonb_array_elements(schedule->'gates') g)) where id = ${id}`;
  await sweep([id], placeOf(rejected), 1);
  expect(await paused(), 'it does not work yet').toEqual([{ paused: true }]);
  await sweep([id], works, 6);
  expect(await paused()).toEqual([{ paused: false }]);
  expect(await holesOf([id])).toEqual([]);
  const completed = (await side.listRuns(id)).filter(({ status }) => status === 'Completed');
  expect(new Set(completed.map(({ start }) => start)).size).toBeGreaterThanOrEqual(3);
});

it('goes on although the clock of the database was set back by a day', async () => {
  const id = await brokenExport(2);
  await side.sql`with later as (update holes set next_try_at = now() + interval '1 day' where export_id = ${id})
     update batch_exports set heal_after = now() + interval '1 day' where id = ${id}`;
  expect(await heal(side.context)).toBe(1);
});

it('is not held up by an export that another transaction has locked', async () => {
  const [held = '', free = ''] = await exportsOf(2, 1);
  await work([held, free], placeOf(unavailable));
  await comeDue();
  await side.db.transaction(async (tx) => {
    // A process that freezes in the middle of its transaction.
    await tx.query(`select from batch_exports where id = $1 for no key update`, [held]);
    expect(await heal(side.context)).toBe(1);
  });
  expect([(await stateOf(free)).at(-1), await heal(side.context)]).toEqual(['Starting', 1]);
});

it('ends after heal_for_hours, and says so in the log', async () => {
  const id = await brokenExport(1);
  await side.sql`
    update holes set heals_since = now() - interval '169 hours', next_try_at = now() where export_id = ${id}`;
  expect(await heal(side.context)).toBe(0);
  const message = await side.sql.value`
    select message from log_entries where export_id = ${id} and run_id is null order by id desc limit 1`;
  expect(message).toContain('heal_for_hours is over');
});
