/** What heals after outages, in virtual time: the real use cases and SQL, with a store and a source that are down for hours. */

import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { exportSettings } from '../../src/foundation/domain/export-settings.ts';
import { type ErrorCode, SluiceError } from '../../src/foundation/domain/errors.ts';
import { openSchedule } from '../../src/service/scheduling/schedule.ts';
import { markReady } from '../../src/state/store/runs/outbox.ts';
import { RunStatements } from '../../src/state/store/runs/run-statements.ts';
import { endCauses } from '../../src/service/use-cases/healing/end-causes.ts';
import { heal } from '../../src/service/use-cases/healing/heal.ts';
import {
  causesAt,
  KnownOutage,
  refuseKnownOutage,
} from '../../src/service/use-cases/healing/known-outage.ts';
import { decideTicks } from '../../src/service/use-cases/runs/decide-ticks.ts';
import { recordFault } from '../../src/service/use-cases/runs/finish-run.ts';
import { lookBack } from '../../src/service/use-cases/runs/look-back.ts';
import { SlowExports } from '../../src/service/use-cases/runs/slow-exports.ts';
import { WorkGuard } from '../../src/service/use-cases/work-guard.ts';
import type { Source } from '../../src/rows/sources/source.ts';
import { casesOf } from '../support/nightly.ts';
import { recordManifest } from '../support/record-manifest.ts';
import { storeExport } from '../support/store-export.ts';
import { openLane } from './simulate.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const began = Date.UTC(2024, 2, 1);

/** Down from `from` to `to`, in hours since the begin. */
interface Outage {
  readonly place: 'destination' | 'source' | 'ours';
  readonly code: ErrorCode;
  readonly from: number;
  readonly to: number;
}

interface Played {
  readonly requests: Readonly<Record<'destination' | 'source', readonly number[]>>;
}

let lane: Awaited<ReturnType<typeof openLane>>;
let statements: RunStatements;
let now = began;
beforeAll(async () => {
  lane = await openLane(null);
  statements = new RunStatements(lane.db, minuteMs);
});
afterAll(() => lane?.close());

async function createExports(exportCount: number): Promise<void> {
  const cadence = { interval: 'hour', timezone: 'UTC', offsetDay: null, offsetHour: null } as const;
  for (let index = 0; index < exportCount; index += 1) {
    await storeExport(lane.db, {
      ...{ id: randomUUID(), name: `Export ${index}`, model: 'events', querySchema: null },
      teamId: lane.teamIds[index % 2] ?? 0,
      destination: { type: 'NoOp', config: {}, secrets: null },
      ...{ cadence, dslQuery: null, filters: null, transformations: false, paused: false },
      ...{ lastPausedAt: null, pausedReason: null, startAt: null, endAt: null },
      ...{ freshnessMinutes: null, deadlineMinutes: null, deadlineAt: null, warnMinutes: null },
      healForHours: exportSettings.healForHours.default,
      schedule: openSchedule({ cadence, paused: false, startAt: null, endAt: null }, now),
    });
  }
}

const isDown = (outages: readonly Outage[], place: Outage['place'], at = now) =>
  outages.find(
    (one) => one.place === place && at >= began + one.from * hourMs && at < began + one.to * hourMs,
  );

const places = { destination: 'bucket', source: 'events' };

/** Runs that a worker attempts at the same moment, in shared statements. */
const atOnce = 24;

async function attempt(runId: string, outages: readonly Outage[], seen: Played['requests']) {
  const { context, db } = lane;
  const run = await statements.claim({ runId, holder: randomUUID() });
  if (!run) return;
  const deadSource = isDown(outages, 'source');
  const deadStore = isDown(outages, 'destination');
  try {
    refuseKnownOutage(run, places);
    if (deadSource) (seen.source as number[]).push(now);
    if (deadSource) throw new SluiceError(deadSource.code);
    if (deadStore) (seen.destination as number[]).push(now);
    if (deadStore) throw new SluiceError(deadStore.code);
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    const sourceWorked = !deadSource && !(error instanceof KnownOutage);
    await recordFault(context, run, error, Math.random(), { places, sourceWorked });
    return;
  }
  const put = { manifestKey: 'm', manifestEtag: `"${run.fence}"`, rows: 0 };
  await recordManifest(context, run, put, undefined, statements);
  const over = causesAt(run, places).map(({ id }) => id);
  if (over.length > 0) await endCauses(db, over);
}

/** Compares the intervals of the last hours with their source, as a worker does all the time; here while the source is down. */
async function lookAtSource(outages: readonly Outage[], seen: Played['requests']): Promise<void> {
  const { context, db } = lane;
  const isNearby = (at: number) => isDown(outages, 'source', at) !== undefined;
  if (![now - 5 * minuteMs, now, now + 5 * minuteMs].some(isNearby)) return;
  const ask = async <Answer>(answer: Answer): Promise<Answer> => {
    const dead = isDown(outages, 'source');
    if (!dead) return answer;
    (seen.source as number[]).push(now);
    throw new SluiceError(dead.code);
  };
  const read = { snapshot: '1:1:@1', digest: null, count: 0 };
  const source: Partial<Source> = {
    place: places.source,
    recheck: () => ask({ settled: true, reason: null, pending: [], position: null }),
    lookAgain: () => ask({ now: read, mayHaveLateRows: false }),
  };
  await lookBack(
    { db, policy: { ...context.policy, lateLookbackHours: 3 } },
    {
      sourceOf: () => source as Source,
      keepsFiles: () => true,
      onError: () => {},
      onMade: () => {},
      guard: new WorkGuard(db, () => {}),
      slow: new SlowExports(),
      stopping: new AbortController().signal,
    },
  );
}

/** The next time at which something can happen, at least five seconds later, as sweeps do. */
async function nextTime(until: number): Promise<number> {
  const [row] = await lane.db.query<{ at: number | null }>(
    `select (extract(epoch from least((select min(next_tick_at) from batch_exports), (select min(available_at) from outbox),
       (select min(next_probe_at) from causes where opened_at is not null),
       (select min(not_before) from healing_intervals where cause_id is null))) * 1000)::float8 as at`,
  );
  // Between these, look-backs come every few minutes.
  const looksAt = now + 5 * minuteMs;
  return Math.min(until, looksAt, Math.max(now + 5_000, Math.ceil(row?.at ?? until)));
}

async function play({ outages, hours, exportCount }: Scenario): Promise<Played> {
  now = began;
  await lane.sim.reset(now);
  await createExports(exportCount);
  const seen: Played['requests'] = { destination: [], source: [] };
  const until = began + hours * hourMs + 30 * minuteMs;
  while (now < until) {
    now = await nextTime(until);
    const ours = isDown(outages, 'ours');
    if (ours) now = began + ours.to * hourMs;
    await lane.sim.setTime(now);
    const onError = (error: unknown) => {
      throw error;
    };
    await decideTicks(lane.context, { onError });
    await heal(lane.context);
    await markReady(lane.db);
    const ready = await lane.db.query<{ runId: string }>(
      `select run_id as "runId" from outbox where ready order by (backfill_id is not null), data_interval_start, run_id`,
    );
    for (let at = 0; at < ready.length; at += atOnce) {
      const together = ready.slice(at, at + atOnce);
      await Promise.all(together.map(({ runId }) => attempt(runId, outages, seen)));
    }
    await lookAtSource(outages, seen);
  }
  return { requests: seen };
}

/** From the moment on at which the place is known not to work, probes are at least a minute apart. */
function expectFewRequests(times: readonly number[], knownAfterMs: number): void {
  const [first = 0] = times;
  const probes = times.filter((at) => at > first + knownAfterMs);
  for (const [index, at] of probes.entries()) {
    const before = probes[index - 1];
    if (before !== undefined) expect((at - before) / minuteMs).toBeGreaterThanOrEqual(1);
  }
}

async function expectHealed({ hours, exportCount }: Scenario): Promise<void> {
  const rows = await lane.db.query<{ receipts: number; paused: boolean; holes: number }>(
    `select (select count(*)::int from receipts c where c.export_id = e.id) as receipts, e.paused,
            (select count(*)::int from holes h where h.export_id = e.id) as holes from batch_exports e`,
  );
  expect(rows).toHaveLength(exportCount);
  for (const row of rows) expect(row).toEqual({ receipts: hours, paused: false, holes: 0 });
  const [order] = await lane.db.query<{ wrong: number }>(
    `select count(*)::int as wrong from runs a join runs b on b.export_id = a.export_id
      where a.heals and b.heals and a.status = 'Completed' and b.status = 'Completed'
        and a.data_interval_start < b.data_interval_start and a.finished_at > b.finished_at`,
  );
  expect(order?.wrong, 'oldest first').toBe(0);
  expect(await lane.db.query('select from causes')).toEqual([]);
}

const store = (from: number, to: number, code: ErrorCode = 'destination.unavailable'): Outage => ({
  ...{ place: 'destination', code, from, to },
});
const source = (from: number, to: number): Outage => ({
  ...{ place: 'source', code: 'source.unavailable', from, to },
});
const ours = (from: number, to: number): Outage => ({
  ...{ place: 'ours', code: 'internal.database_unavailable', from, to },
});

interface Scenario {
  readonly name: string;
  readonly outages: readonly Outage[];
  readonly hours: number;
  readonly exportCount: number;
}

/** A day has the one with two places. At night each other one has 500 exports: about a quarter of an hour on a machine that does nothing else. */
const byDay: readonly Scenario[] = [
  {
    name: 'store and source, and the source is back first',
    ...{ outages: [store(1.5, 4), source(2, 3)], hours: 6, exportCount: 4 },
  },
];
const byNight: readonly Scenario[] = [
  { name: 'their store for 6 hours', outages: [store(1, 7)], hours: 10, exportCount: 500 },
  {
    name: 'their credentials, which were repaired a day later',
    outages: [store(1, 25, 'destination.invalid_credentials')],
    ...{ hours: 28, exportCount: 500 },
  },
  { name: 'their source for 3 hours', outages: [source(1.5, 4)], hours: 7, exportCount: 500 },
  {
    name: 'store and source, and the store is back first',
    ...{ outages: [store(2, 4), source(1, 7)], hours: 10, exportCount: 500 },
  },
  {
    name: 'their store, and our own database in the middle of that',
    ...{ outages: [store(1, 7), ours(3, 5)], hours: 11, exportCount: 500 },
  },
];

test.each(casesOf(byDay, byNight).map((scenario) => [scenario.name, scenario] as const))(
  'hourly exports heal without a hand after the loss of %s',
  async (_name, scenario) => {
    const { requests } = await play(scenario);
    for (const times of Object.values(requests)) expectFewRequests(times, 5 * minuteMs);
    await expectHealed(scenario);
  },
  3_600_000,
);
