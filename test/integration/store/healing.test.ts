import { beforeEach, expect, it } from 'vitest';
import { describeError, SluiceError } from '../../../src/foundation/domain/errors.ts';
import { cancelRun, retryRun } from '../../../src/service/use-cases/runs/cancel-work.ts';
import { takeProbe } from '../../../src/state/store/healing/causes.ts';
import { sweepExpiredLeases } from '../../../src/state/store/runs/leases.ts';
import { findRun } from '../../../src/state/store/runs/runs.ts';
import { recordFault } from '../../../src/service/use-cases/runs/finish-run.ts';
import { pauseExport } from '../../../src/service/use-cases/exports/pause-export.ts';
import { heal } from '../../../src/service/use-cases/healing/heal.ts';
import {
  KnownOutage,
  refuseKnownOutage,
} from '../../../src/service/use-cases/healing/known-outage.ts';
import {
  claim,
  createExportOfThePast,
  decide,
  expireLease,
  hourMs,
  listRuns,
} from '../../support/run-side.ts';
import { attemptsOf, placeOf } from '../../support/attempts-at-places.ts';
import { useRunSide } from '../../support/use-run-side.ts';

const side = useRunSide({ retry: { maxAttempts: 2, baseMs: 1, capMs: 1 }, secondOpinionMs: 0 });
const unavailable = new SluiceError('destination.unavailable');
const rejected = new SluiceError('destination.invalid_credentials');

beforeEach(async () => {
  await side.db.query(
    `with ended as (delete from causes) update batch_exports set deleted_at = now()`,
  );
});

const { attempt, work } = attemptsOf(side);

const probesAreDue = () => side.db.query(`update causes set next_probe_at = now()`);
const waitsAreOver = () => side.db.query(`update healing_intervals set not_before = now()`);

const stateOf = async (exportId: string) =>
  (await listRuns(side.db, exportId)).map(({ status }) => status);

async function exportsOf(number: number, hours = 3): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < number; index += 1) {
    const { id } = await createExportOfThePast(side, { createdMsAgo: hours * hourMs });
    ids.push(id);
  }
  await decide(side.context);
  return ids;
}

const holesOf = (exportIds: readonly string[]) =>
  side.db.query(`select from holes where export_id = any ($1::uuid[])`, [exportIds]);

it('asks a dead place once per probe, whatever number of exports, and runs all after the first success', async () => {
  const place = placeOf(unavailable);
  const ids = await exportsOf(4);
  await work(ids, place);
  expect((await holesOf(ids)).length).toBe(12);
  // Each run's first attempt, and the last one of the first run that ended: then the place was known.
  const known = 12 + 1;
  expect(place.requests).toBe(known);

  for (const probe of [1, 2, 3]) {
    expect(await heal(side.context), 'no probe before its time').toBe(0);
    await probesAreDue();
    expect(await heal(side.context)).toBe(1);
    await work(ids, place);
    expect(place.requests).toBe(known + probe);
  }
  place.error = null;
  await probesAreDue();
  for (let sweep = 0; sweep < 10; sweep += 1) {
    await heal(side.context);
    await work(ids, place);
  }
  expect(await holesOf(ids)).toEqual([]);
  expect(place.requests).toBe(known + 3 + 12);
  expect(await side.db.query(`select from causes`)).toEqual([]);
});

it('heals oldest first, in the lane of its export behind live runs, at most as many as a backfill', async () => {
  const place = placeOf(unavailable);
  const [id = ''] = await exportsOf(1, 5);
  await work([id], place);
  await side.db.query(`delete from causes`);
  await heal(side.context);
  const runs = await side.db.query<{ lane: string; heals: boolean; start: string }>(
    `select o.backfill_id as lane, r.heals, r.data_interval_start as start from outbox o join runs r on r.id = o.run_id
      where r.export_id = $1 order by r.data_interval_start`,
    [id],
  );
  const starts = (await listRuns(side.db, id)).map(({ start }) => start);
  const oldest = [...new Set(starts)].toSorted().slice(0, 2);
  expect(runs).toEqual(oldest.map((start) => ({ lane: id, heals: true, start })));
});

it('tries a dead place again by a live run once its probe is due, if its exports do not heal', async () => {
  const place = placeOf(rejected);
  const [first = '', second = '', third = ''] = await exportsOf(3, 1);
  await side.db.query(`update batch_exports set heal_for_hours = 0 where id = any ($1::uuid[])`, [
    [first, second, third],
  ]);
  await work([first], place);
  const known = place.requests;
  place.error = null;
  await work([second], place);
  expect([place.requests, await stateOf(second)], 'no probe before its time').toEqual([
    known,
    ['Failed'],
  ]);
  await probesAreDue();
  expect(await heal(side.context), 'nothing heals').toBe(0);
  await work([third], place);
  expect(await stateOf(third)).toEqual(['Completed']);
  expect(await side.db.query(`select from causes`)).toEqual([]);
});

it('leaves live runs at a known dead place their attempts, and starts them at once when it works', async () => {
  const place = placeOf(unavailable);
  const [broken = '', fresh = ''] = await exportsOf(2, 1);
  await work([broken], place);
  const [run] = await listRuns(side.db, fresh);
  await attempt(run?.id ?? '', place);
  expect(place.requests, 'no request for it').toBe(2);
  const [waiting] = await side.db.query<{ error: string; later: boolean }>(
    `update outbox o set available_at = now() + interval '1 hour' from runs r where r.id = o.run_id and r.id = $1
     returning r.latest_error as error, o.available_at > now() as later`,
    [run?.id],
  );
  expect(waiting?.error).toContain('no attempt was made');
  place.error = null;
  await probesAreDue();
  // The run that waits is the probe: its interval needs no other run.
  await heal(side.context);
  await work([fresh], place);
  expect(await stateOf(fresh)).toEqual(['Completed']);
});

it('leaves the probe of a place to the sweep if it makes no run there: its exports are paused or deleted', async () => {
  const ids = await exportsOf(1);
  await work(ids, placeOf(unavailable));
  const [cause] = await side.db.query<{ id: string }>(`select id from causes`);
  const sweepMayProbe = async () => {
    await probesAreDue();
    return takeProbe(side.db, cause?.id ?? '', 0, true);
  };
  expect(await sweepMayProbe(), 'its intervals heal').toBe(false);
  await side.db.query(`update batch_exports set paused = true where id = $1`, [ids[0]]);
  expect(await sweepMayProbe(), 'a person has paused it').toBe(true);
  await side.db.query(`update batch_exports set paused = false where id = $1`, [ids[0]]);
  expect(await sweepMayProbe()).toBe(false);
  await side.db.query(`update batch_exports set deleted_at = now() where id = $1`, [ids[0]]);
  expect(await sweepMayProbe(), 'it is deleted').toBe(true);
});

it('never heals what a person must decide, has decided, or does not want to heal', async () => {
  const place = placeOf(null);
  const [undecided = '', cancelled = '', off = '', paused = ''] = await exportsOf(4, 1);
  await side.db.query(`update batch_exports set heal_for_hours = 0 where id = $1`, [off]);
  place.error = new SluiceError('source.rows_missing');
  await work([undecided], place);
  place.error = unavailable;
  await work([cancelled, off, paused], place);
  await pauseExport(
    side.context,
    { organizationId: side.tenant.organizationId, keyId: null },
    paused,
  );
  const [failed] = await listRuns(side.db, cancelled);
  const found = await findRun(side.db, cancelled, failed?.id ?? '');
  if (!found) throw new Error('no run');
  const again = await retryRun(side.context, found);
  await cancelRun(side.context, { ...found, id: again });
  await side.db.query(`delete from causes`);
  expect(await heal(side.context)).toBe(0);
  expect(await stateOf(undecided)).toEqual(['Failed']);
  expect(await stateOf(cancelled)).toEqual(['FailedRetryable', 'Cancelled']);
  expect(await stateOf(off)).toEqual(['FailedRetryable']);
  expect(await stateOf(paused)).toEqual(['FailedRetryable']);
});

it('ends a pause that only Sluice made, and exports what the pause missed', async () => {
  const context = side.withPolicy({ pauseAfterFailures: 2 });
  const place = placeOf(rejected);
  const [id = ''] = await exportsOf(1, 2);
  for (const { id: runId } of await listRuns(side.db, id)) {
    for (;;) {
      const [row] = await side.db.query(`select from outbox where run_id = $1`, [runId]);
      if (!row) break;
      const run = await claim(side, runId);
      const places = { destination: place.name, source: 'events' };
      await recordFault(context, run, rejected, 0, { places, sourceWorked: true });
    }
  }
  const paused = () =>
    side.db.query<{ paused: boolean }>(`select paused from batch_exports where id = $1`, [id]);
  expect(await paused()).toEqual([{ paused: true }]);
  // It was paused for three hours, in which three ticks came.
  await side.db.query(
    `update batch_exports set last_paused_at = now() - interval '3 hours',
            schedule = jsonb_set(schedule, '{gates}', (select jsonb_agg(case when g->'pausedSince' = 'null' then g
              else g || jsonb_build_object('since', (g->>'since')::bigint - 10800000, 'pausedSince', (g->>'pausedSince')::bigint - 10800000) end)
              from jsonb_array_elements(schedule->'gates') g)) where id = $1`,
    [id],
  );
  await probesAreDue();
  await heal(side.context);
  await work([id], place);
  expect(await paused(), 'the probe failed').toEqual([{ paused: true }]);
  place.error = null;
  await probesAreDue();
  for (let sweep = 0; sweep < 6; sweep += 1) {
    await heal(side.context);
    await work([id], place);
  }
  expect(await paused()).toEqual([{ paused: false }]);
  expect(await holesOf([id])).toEqual([]);
  const completed = new Set(
    (await listRuns(side.db, id)).flatMap(({ status, start }) =>
      status === 'Completed' ? [start] : [],
    ),
  );
  expect(completed.size).toBeGreaterThanOrEqual(3);
});

it('waits longer each time for an export that fails although its place works', async () => {
  const denied = placeOf(new SluiceError('destination.access_denied'));
  const works = { ...denied, error: null };
  const [id = '', other = ''] = await exportsOf(2, 1);
  await work([id], denied);
  for (const tries of [1, 2]) {
    // Another export writes to the same bucket with the same key.
    const runs = await side.db.query<{ id: string }>(
      `with hole as (delete from receipts where export_id = $1 returning *), gone as (delete from runs where false returning 1)
       select id from runs where export_id = $1 order by generation desc limit 1`,
      [other],
    );
    const [{ id: last } = { id: '' }] = runs;
    const found = await findRun(side.db, other, last);
    if (found && found.status !== 'Starting') await retryRun(side.context, found);
    await work([other], works);
    await waitsAreOver();
    expect(await heal(side.context)).toBe(1);
    await work([id], denied);
    const [row] = await side.db.query<{ tries: number; held: boolean }>(
      `select tries, not_before > now() and cause_id is not null as held from healing_intervals where export_id = $1`,
      [id],
    );
    expect(row).toEqual({ tries, held: true });
  }
});

it('goes on if a probe meets another cause, at its place or at its source, and frees nothing before both are over', async () => {
  const place = placeOf(unavailable);
  const ids = await exportsOf(2, 2);
  await work(ids, place);
  const causes = () =>
    side.db.query<{ scope: string; code: string }>(`select scope, code from causes order by scope`);
  const probe = async (error: SluiceError | null) => {
    place.error = error;
    const before = place.requests;
    await probesAreDue();
    await heal(side.context);
    await work(ids, place);
    return place.requests - before;
  };
  expect(await probe(rejected)).toBe(1);
  const revoked = { scope: 'destination', code: rejected.code };
  expect(await causes()).toEqual([revoked]);
  expect(await probe(new SluiceError('source.unavailable'))).toBe(1);
  expect(await causes()).toEqual([revoked, { scope: 'source', code: 'source.unavailable' }]);
  // The source alone is probed, and it works; the store still does not.
  expect(await probe(new SluiceError('source.unavailable'))).toBe(1);
  expect((await holesOf(ids)).length).toBe(4);
  for (let sweep = 0; sweep < 4; sweep += 1) await probe(null);
  expect(await holesOf(ids)).toEqual([]);
  expect(await causes()).toEqual([]);
});

it('stays a probe if its worker is killed: the next one makes the request', async () => {
  const place = placeOf(unavailable);
  const [id = ''] = await exportsOf(1, 1);
  await work([id], place);
  await probesAreDue();
  await heal(side.context);
  const [run] = (await listRuns(side.db, id)).filter(({ status }) => status === 'Starting');
  const first = await claim(side, run?.id ?? '');
  expect(first.probes).not.toBeNull();
  await expireLease(side.db, first.runId);
  await sweepExpiredLeases(side.db);
  const before = place.requests;
  place.error = null;
  await attempt(first.runId, place);
  expect(place.requests).toBe(before + 1);
  expect(await holesOf([id])).toEqual([]);
});

it('goes on although the clock of the database was set back by a day', async () => {
  const place = placeOf(unavailable);
  const [id = ''] = await exportsOf(1, 2);
  await work([id], place);
  await side.db.query(`update causes set next_probe_at = now() + interval '1 day'`);
  expect(await heal(side.context), 'a probe').toBe(1);
  await work([id], place);
  place.error = null;
  await probesAreDue();
  await heal(side.context);
  await side.db.query(`update healing_intervals set not_before = now() + interval '1 day'`);
  for (let sweep = 0; sweep < 3; sweep += 1) {
    await work([id], place);
    await heal(side.context);
  }
  expect(await holesOf([id])).toEqual([]);
});

it('ends after heal_for_hours, and says so in the log', async () => {
  const place = placeOf(unavailable);
  const [id = ''] = await exportsOf(1, 1);
  await work([id], place);
  await side.db.query(
    `update healing_intervals set since = now() - interval '169 hours' where export_id = $1`,
    [id],
  );
  await side.db.query(`delete from causes`);
  expect(await heal(side.context)).toBe(0);
  const [entry] = await side.db.query<{ message: string }>(
    `select message from log_entries where export_id = $1 and run_id is null order by id desc limit 1`,
    [id],
  );
  expect(entry?.message).toContain('heal_for_hours is over');
});

it('is held up by no other place than its own: a known outage says what failed there, and nothing that ends', () => {
  const cause = {
    id: 'c',
    scope: 'source',
    place: 'events',
    code: 'source.unavailable',
    isOpen: true,
    beganAt: '2024-03-01T00:00:00.000000Z',
    failedAt: '2024-03-01T00:00:30.000000Z',
    ageMs: 60_000,
    latestError: describeError(new SluiceError('source.unavailable', 'ECONNREFUSED')),
  } as const;
  const run = { exportId: 'e', causes: [cause], probes: null, askedAt: null };
  const at = (source: string) => () => refuseKnownOutage(run, { destination: 'events', source });
  expect(at('orders')).not.toThrow();
  expect(at('events')).toThrow(KnownOutage);
  const text = 'no attempt was made: it has failed since 2024-03-01T00:00:00.000000Z';
  // A source is shared: what failed there for another organization is not shown.
  expect(at('events')).toThrow(expect.objectContaining({ detail: text }));
  const latestError = describeError(new SluiceError('destination.unavailable', 'ECONNREFUSED'));
  const ofStore = { scope: 'destination', code: 'destination.unavailable', latestError } as const;
  const atStore = { ...run, causes: [{ ...cause, ...ofStore }] };
  expect(() => refuseKnownOutage(atStore, { destination: 'events', source: 'orders' })).toThrow(
    expect.objectContaining({ detail: `${text}: ECONNREFUSED` }),
  );
});
