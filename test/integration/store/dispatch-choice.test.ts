/** The properties of the dispatcher's choice, by their number in `src/service/scheduling/README.md`. */

import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { beforeAll, beforeEach, expect, it } from 'vitest';
import { type DispatchRules, takeRuns } from '../../../src/state/store/runs/outbox.ts';
import { reportWorker } from '../../../src/state/store/runs/workers.ts';
import { createTenant } from '../../support/tenants.ts';
import { isNightly } from '../../support/nightly.ts';
import { useRunSide } from '../../support/run-side.ts';

const side = useRunSide();

interface Export {
  readonly exportId: string;
  readonly projectId: number;
  readonly organizationId: string;
  readonly backfillId: string;
}

/** As the statement sees a run: 0 is executed, 1 is queued, 2 waits. */
interface Run extends Export {
  readonly runId: string;
  readonly stage: 0 | 1 | 2;
  readonly lane: 'live' | 'backfill' | 'heals';
  readonly small: boolean;
  /** Hours. */
  readonly start: number;
}

async function createExports(tenants: number, perProject: number): Promise<readonly Export[]> {
  const all: Export[] = [];
  for (let tenant = 0; tenant < tenants; tenant += 1) {
    const { organizationId, projectIds } = await createTenant(side.db);
    for (const projectId of projectIds) {
      for (let n = 0; n < perProject; n += 1) {
        const { id: exportId } = await side.createExport({ teamId: projectId });
        const backfillId = randomUUID();
        await side.sql`insert into backfills (id, export_id, team_id, start_at, end_at, concurrency, total_runs)
           values (${backfillId}, ${exportId}, ${projectId}, now() - interval '1 day', now(), 5, 5)`;
        all.push({ exportId, projectId, organizationId, backfillId });
      }
    }
  }
  return all;
}

let exports: readonly Export[];
beforeAll(async () => {
  exports = await createExports(3, 2);
});
beforeEach(clear);

async function clear(): Promise<void> {
  await side.sql`truncate outbox`;
  await side.sql`delete from runs`;
}

async function add(runs: readonly Run[]): Promise<void> {
  const rows = runs.map((run, n) => ({
    ...{ n, id: run.runId, team_id: run.projectId, export_id: run.exportId, small: run.small },
    ...{ stage: run.stage, start: run.start, heals: run.lane === 'heals' },
    backfill_id: run.lane === 'backfill' ? run.backfillId : null,
  }));
  await side.sql`with rows as materialized (
       select *, '2024-03-02T00:00:00Z'::timestamptz + start * interval '1 hour' as at
         from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
         as r (n int, id uuid, team_id int, export_id uuid, backfill_id uuid, heals boolean, small boolean, stage int,
           start int)
     ), made as (
       insert into runs (id, export_id, team_id, backfill_id, heals, data_interval_start, data_interval_end, status,
         lease_expires_at, small)
       select id, export_id, team_id, backfill_id, heals, at, at + (n + 1) * interval '1 second', case stage
         when 0 then 'Running' else 'Starting' end,
              case stage when 0 then now() + interval '1 hour' end, small from rows
     )
     insert into outbox (run_id, team_id, export_id, backfill_id, data_interval_start, ready, small, dispatched_at)
     select id, team_id, export_id, case when heals then export_id else backfill_id end, at, true, small, case stage
       when 1 then now() end
       from rows where stage > 0`;
}

/** The slots of the workers. */
type Slots = Readonly<Record<'large' | 'small', number>>;

/** A small run uses a slot for small runs, if there are any. */
const usesSmall = (run: Run, { small }: Slots) => run.small && small > 0;

/** The limits of those that use the same kind of slots. */
function limitsFor(run: Run, slots: Slots) {
  const count = usesSmall(run, slots) ? slots.small : slots.large;
  const perTurn = usesSmall(run, slots) ? 4 : 1;
  const share = count >= 4 ? count - 1 : Number.POSITIVE_INFINITY;
  const crowded = Math.min(share, Math.max(perTurn, Math.floor(count / 8)));
  const healing = Math.max(1, Math.floor(count / 4));
  return { perTurn, share, crowded, healing, queued: 2 * count };
}

/** Live before backfill, then the oldest interval. */
function compare(a: Run, b: Run): number {
  return (
    Number(a.lane !== 'live') - Number(b.lane !== 'live') ||
    a.start - b.start ||
    a.projectId - b.projectId ||
    (a.runId < b.runId ? -1 : 1)
  );
}

/** Looks at one run after the other, and counts all before it anew. */
function chooseNaively(world: readonly Run[], rules: DispatchRules, slots: Slots): readonly Run[] {
  const inFlight = world.filter(({ stage }) => stage < 2);
  const sameSlots = (a: Run, b: Run) => usesSmall(a, slots) === usesSmall(b, slots);
  const limits = (run: Run) => limitsFor(run, slots);
  type Candidate = readonly [run: Run, turn: number];
  /** Keeps those that have fewer like them before them than the limit. Their turn is of this step. */
  const keep = (
    runs: readonly Candidate[],
    isLike: (before: Run, run: Run) => boolean,
    limitOf: (run: Run) => number | null,
  ): readonly Candidate[] => {
    const kept: Candidate[] = [];
    const sorted = runs.toSorted(([a, one], [b, other]) => one - other || compare(a, b));
    for (const [run] of sorted) {
      const before = [...inFlight, ...kept.map(([other]) => other)].filter((other) =>
        isLike(other, run),
      ).length;
      if (before < (limitOf(run) ?? Infinity))
        kept.push([run, Math.floor(before / limits(run).perTurn)]);
    }
    return kept;
  };
  const inSameTurns = (runs: readonly Candidate[], kept: readonly Candidate[]) =>
    runs.filter(([run]) => kept.some(([one]) => one === run));
  const organizations = new Set(world.map(({ organizationId }) => organizationId));
  for (const id of rules.company ?? []) organizations.add(id);
  const isCrowded = rules.company !== null && organizations.size > 1;

  const waiting = world.filter(({ stage }) => stage === 2).map((run): Candidate => [run, 0]);
  const ofExports = keep(
    waiting,
    (a, b) => a.exportId === b.exportId && a.lane === 'live' && b.lane === 'live',
    ({ lane }) => (lane === 'live' ? rules.perExport : null),
  ).map(([run]): Candidate => [run, 0]);
  const ofProjects = keep(
    ofExports,
    (a, b) => a.projectId === b.projectId && sameSlots(a, b),
    () => rules.perProject,
  );
  const inTurn = keep(
    ofProjects,
    (a, b) => a.organizationId === b.organizationId && sameSlots(a, b),
    (run) => (isCrowded ? limits(run).crowded : limits(run).share),
  );
  const healthy = inSameTurns(
    inTurn,
    keep(
      inTurn,
      (a, b) => a.lane === 'heals' && b.lane === 'heals' && sameSlots(a, b),
      (run) => (run.lane === 'heals' ? limits(run).healing : null),
    ),
  );
  const chosen = inSameTurns(
    healthy,
    keep(
      healthy,
      (a, b) => a.stage > 0 && sameSlots(a, b),
      (run) => limits(run).queued,
    ),
  );
  const isSmall = ([run]: Candidate) => Number(usesSmall(run, slots));
  return chosen
    .toSorted((a, b) => isSmall(a) - isSmall(b) || a[1] - b[1] || compare(a[0], b[0]))
    .map(([run]) => run);
}

const anyRun = fc.record({
  export: fc.nat({ max: 11 }),
  stage: fc.constantFrom<Run['stage'][]>(0, 1, 2, 2, 2, 2),
  lane: fc.constantFrom<Run['lane'][]>('live', 'live', 'backfill', 'heals'),
  small: fc.boolean(),
  start: fc.nat({ max: 20 }),
});
const anyRules = fc.record({
  slots: fc.record({ large: fc.nat({ max: 9 }), small: fc.nat({ max: 12 }) }),
  perExport: fc.integer({ min: 1, max: 4 }),
  perProject: fc.integer({ min: 1, max: 8 }),
  company: fc.constantFrom<(readonly string[] | null)[]>(null, null, [], [randomUUID()]),
});

it('P16 the choice is that of one who looks at one run after the other, and passes no limit', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyRun, { maxLength: 60 }),
      anyRules,
      async (drawn, { slots, ...limits }) => {
        const world = drawn.map(({ export: at, ...run }, n): Run => {
          const runId = `00000000-0000-4000-8000-${String((n * 7919) % 10_007).padStart(12, '0')}`;
          return { ...(exports[at] as Export), ...run, runId };
        });
        await clear();
        await reportWorker(side.db, 'one', slots.large, slots.small);
        await add(world);
        const { runs, organizationIds } = await takeRuns(side.db, limits);
        const expected = chooseNaively(world, limits, slots);
        expect(runs.map(({ runId }) => runId)).toEqual(expected.map(({ runId }) => runId));
        expect(runs.map(({ small }) => small)).toEqual(
          expected.map((run) => usesSmall(run, slots)),
        );
        expect(new Set(organizationIds)).toEqual(
          new Set(world.map(({ organizationId }) => organizationId)),
        );
        const live = [...expected, ...world.filter(({ stage }) => stage < 2)].filter(
          ({ lane }) => lane === 'live',
        );
        for (const { exportId } of expected.filter(({ lane }) => lane === 'live')) {
          const count = live.filter((run) => run.exportId === exportId).length;
          expect(count).toBeLessThanOrEqual(limits.perExport);
        }
        // Those are queued now, and the next choice goes on.
        const queued = world.map((run) => (expected.includes(run) ? { ...run, stage: 1 } : run));
        const next = chooseNaively(queued as readonly Run[], limits, slots);
        expect((await takeRuns(side.db, limits)).runs.map(({ runId }) => runId)).toEqual(
          next.map(({ runId }) => runId),
        );
      },
    ),
    { numRuns: isNightly ? 100 : 60 },
  );
});

const workers = 10;
const rules: DispatchRules = { perExport: 3, perProject: 8, company: null };

function runOf(of: Export, start: number): Run {
  return { ...of, runId: randomUUID(), stage: 2, lane: 'live', small: false, start };
}

it.each([
  ['at once', () => 10],
  ['one after the other', (tenant: number) => 10 + tenant * 3],
])(
  'P17 a flood of one tenant at most doubles the wait of 12 tenants that come %s',
  async (_, dueAt) => {
    await reportWorker(side.db, 'one', workers);
    const flooding = (await createExports(1, 10)).slice(0, 10);
    const others = (await createExports(12, 1)).filter((_, n) => n % 2 === 0);
    const flood = flooding.flatMap((one) =>
      Array.from({ length: 30 }, (_, n) => ({ run: runOf(one, n), dueAt: 0 })),
    );
    const arrivals = others.map((one, n) => ({ run: runOf(one, 1_000 + n), dueAt: dueAt(n) }));
    const watched = new Set(arrivals.map(({ run }) => run.runId));
    const alone = percentile95(await simulate(arrivals, watched));
    await clear();
    const flooded = percentile95(await simulate([...flood, ...arrivals], watched));
    expect(flooded).toBeLessThanOrEqual(alone * 2);
  },
);

interface Arrival {
  readonly run: Run;
  readonly dueAt: number;
}

/**
 * Steps the dispatcher, a first-in first-out queue and workers that take 5 to 15 steps a run.
 *
 * @returns the steps from due to done of the watched runs
 */
async function simulate(
  arrivals: readonly Arrival[],
  watched: ReadonlySet<string>,
): Promise<readonly number[]> {
  const byId = new Map(arrivals.map((arrival) => [arrival.run.runId, arrival]));
  const queue: string[] = [];
  let working: readonly { readonly runId: string; readonly until: number }[] = [];
  const waits: number[] = [];
  for (let step = 0; waits.length < watched.size && step < 2_000; step += 1) {
    const ended = working.filter(({ until }) => until <= step).map(({ runId }) => runId);
    for (const runId of ended) {
      if (watched.has(runId)) waits.push(step - (byId.get(runId)?.dueAt ?? 0));
    }
    working = working.filter(({ until }) => until > step);
    await side.sql`delete from runs where id = any (${ended}::uuid[])`;
    await add(arrivals.filter(({ dueAt }) => dueAt === step).map(({ run }) => run));
    queue.push(...(await takeRuns(side.db, rules)).runs.map(({ runId }) => runId));
    const begun = queue.splice(0, workers - working.length).map((runId) => {
      return { runId, until: step + 5 + (((byId.get(runId)?.run.start ?? 0) * 7) % 11) };
    });
    working = [...working, ...begun];
    await side.sql`
      with begun as (delete from outbox where run_id = any (${begun.map(({ runId }) => runId)}::uuid[]) returning run_id)
       update runs set status = 'Running', lease_expires_at = now() + interval '1 hour' from begun where id = run_id`;
  }
  expect(waits).toHaveLength(watched.size);
  return waits;
}

function percentile95(waits: readonly number[]): number {
  return waits.toSorted((a, b) => a - b)[Math.floor(waits.length * 0.95)] ?? Number.NaN;
}
