import { describe, expect, test } from 'vitest';
import type { QueuedRun } from '../../../src/foundation/domain/run.ts';
import {
  crowdedShare,
  type DispatchLimits,
  organizationShare,
  pickFair,
} from '../../../src/service/admission/fairness.ts';

const limits: DispatchLimits = {
  perOrganization: () => 10,
  perProject: 8,
  perExport: 3,
  perBackfill: () => 2,
};
/** Projects 1 to 99 have an organization each, 101 is another project of the first, and so on. */
const organizationOf = (projectId: number): string => `organization ${projectId % 100}`;

function live(projectId: number, exportId: string, intervalStart: number): QueuedRun {
  const runId = `${exportId}@${intervalStart}`;
  const organizationId = organizationOf(projectId);
  return { runId, organizationId, projectId, exportId, backfillId: null, intervalStart };
}

function backfill(projectId: number, exportId: string, intervalStart: number): QueuedRun {
  const runId = `${exportId}@${intervalStart}~`;
  const organizationId = organizationOf(projectId);
  const backfillId = `b-${exportId}`;
  return { runId, organizationId, projectId, exportId, backfillId, intervalStart };
}

function picked(
  candidates: readonly QueuedRun[],
  inFlight: readonly QueuedRun[] = [],
  slots = 100,
): string[] {
  return pickFair(candidates, inFlight, limits, slots).map(({ runId }) => runId);
}

describe('organizationShare', () => {
  test('leaves one slot of four or more to other tenants', () => {
    expect([4, 5, 100].map(organizationShare)).toEqual([3, 4, 99]);
  });

  test('leaves all of fewer slots to one tenant', () => {
    expect([0, 1, 3].map(organizationShare)).toEqual(Array(3).fill(Number.POSITIVE_INFINITY));
  });
});

describe('crowdedShare', () => {
  test('is an eighth of all slots, and at least one', () => {
    const shares = [1, 4, 8, 15, 16, 100].map((slots) => crowdedShare(slots));
    expect(shares).toEqual([1, 1, 1, 1, 2, 12]);
    // Runs that have a turn together cost little more than one.
    expect(crowdedShare(24, 4)).toBe(4);
  });
});

describe('pickFair', () => {
  test('lets small runs of a project have a turn together, but no backfill beside a live run', () => {
    const together = { ...limits, perBackfill: () => 10, perTurn: 2 };
    const waiting = [
      ...[1, 2, 3].map((hour) => backfill(1, 'a', hour)),
      ...[4, 5, 6].map((hour) => backfill(2, 'b', hour)),
      live(2, 'c', 7),
    ];
    const order = ['c@7', 'a@1~', 'a@2~', 'a@3~', 'b@4~', 'b@5~', 'b@6~'];
    expect(pickFair(waiting, [], together, 100).map(({ runId }) => runId)).toEqual(order);
  });

  test('lets tenants take turns', () => {
    const waiting = [live(1, 'a', 1), live(1, 'b', 2), live(1, 'c', 3), live(2, 'd', 9)];
    expect(picked(waiting)).toEqual(['a@1', 'd@9', 'b@2', 'c@3']);
  });

  test('counts what a tenant has in flight already', () => {
    const inFlight = [live(1, 'x', 0), live(1, 'y', 0)];
    const waiting = [live(1, 'a', 1), live(2, 'b', 5), live(2, 'c', 6), live(2, 'd', 7)];
    expect(picked(waiting, inFlight)).toEqual(['b@5', 'c@6', 'a@1', 'd@7']);
  });

  test('takes live runs before backfills, then the oldest interval', () => {
    const waiting = [backfill(1, 'a', 1), live(1, 'a', 8), live(1, 'b', 7), backfill(1, 'c', 0)];
    expect(picked(waiting)).toEqual(['b@7', 'a@8', 'c@0~', 'a@1~']);
  });

  test('keeps to the limit of each export and goes on with the others', () => {
    const waiting = [1, 2, 3, 4, 5].map((start) => live(1, 'a', start));
    expect(picked([...waiting, live(1, 'b', 9)], [live(1, 'a', 0)])).toEqual(['a@1', 'a@2', 'b@9']);
  });

  test('lets the projects of a tenant share its turns', () => {
    const waiting = [live(1, 'a', 1), live(101, 'b', 2), live(1, 'c', 0), live(2, 'd', 9)];
    expect(picked([...waiting, live(2, 'e', 10)])).toEqual(['c@0', 'd@9', 'b@2', 'e@10', 'a@1']);
  });

  test('keeps to the limit of each tenant over all its projects', () => {
    const waiting = [1, 101, 201].flatMap((project) =>
      Array.from({ length: 6 }, (_, index) => live(project, `${project}.${index}`, index)),
    );
    expect(picked(waiting, [live(301, 'x', 0)])).toHaveLength(9);
    expect(picked([...waiting, live(2, 'y', 9)], waiting.slice(0, 10))).toEqual(['y@9']);
  });

  test('keeps to the limit of each project', () => {
    const waiting = Array.from({ length: 20 }, (_, index) => live(1, `e${index}`, index));
    expect(picked(waiting, [live(1, 'x', 0)])).toHaveLength(7);
    const eight = waiting.slice(0, 8);
    expect(picked(waiting, eight)).toEqual([]);
  });

  test('a backfill at its limit does not hold up the live runs of its export', () => {
    const inFlight = [backfill(1, 'a', 1), backfill(1, 'a', 2)];
    expect(picked([backfill(1, 'a', 3), live(1, 'a', 9)], inFlight)).toEqual(['a@9']);
  });

  test('fills no more than the free slots, and none if none is free', () => {
    const waiting = [live(1, 'a', 1), live(2, 'b', 2), live(3, 'c', 3)];
    expect(picked(waiting, [], 2)).toEqual(['a@1', 'b@2']);
    expect(picked(waiting, [], 0)).toEqual([]);
    expect(picked(waiting, [], -1)).toEqual([]);
  });

  test('looks at each of 20,000 waiting runs about as often as a sort does', () => {
    let looks = 0;
    const counted = <T extends object>(run: T): T =>
      new Proxy(run, {
        get(target, name) {
          looks += 1;
          return Reflect.get(target, name);
        },
      });
    const waiting = Array.from({ length: 20_000 }, (_, index) =>
      counted(live(index % 700, `e${index % 9000}`, (index * 7919) % 20_011)),
    );
    expect(picked(waiting, [], 50)).toHaveLength(50);
    // n log n is 290,000; each comparison reads up to eight properties, and there are three sorts.
    expect(looks).toBeLessThan(20_000 * Math.log2(20_000) * 24);
  });
});

describe('a flood', () => {
  const workers = 10;
  const flood = Array.from({ length: 5000 }, (_, index) => ({
    run: live(0, `flood${index % 100}`, index),
    dueAt: 0,
  }));
  const small = (dueAt: (tenant: number) => number) =>
    Array.from({ length: 50 }, (_, index) => ({
      run: live(index + 1, `small${index}`, 1_000_000 + index),
      dueAt: dueAt(index),
    }));

  test.each([
    ['at once', small(() => 40)],
    ['one after the other', small((tenant) => 40 + tenant * 3)],
  ])('of one tenant at most doubles the wait of 50 tenants that come %s', (_, arrivals) => {
    const alone = percentile95(simulate(arrivals, workers));
    const flooded = percentile95(simulate([...flood, ...arrivals], workers));
    expect(flooded).toBeLessThanOrEqual(alone * 2);
  });

  test('uses all that its own limit allows', () => {
    const waits = simulate(flood.slice(0, 400), workers, (projectId) => projectId === 0);
    const mean = 10;
    expect(Math.max(...waits)).toBeLessThan((400 / limits.perProject) * mean * 1.3);
  });
});

interface Arrival {
  readonly run: QueuedRun;
  readonly dueAt: number;
}

/**
 * Steps a dispatcher that keeps at most twice the workers in flight, a first-in first-out queue and
 * workers that take 5 to 15 steps a run. The dispatcher sees the oldest few of each export. Gives the steps from due to done of the tenants watched.
 */
function simulate(
  arrivals: readonly Arrival[],
  workers: number,
  watched = (projectId: number): boolean => projectId > 0,
): number[] {
  const dueAt = new Map(arrivals.map(({ run, dueAt }) => [run.runId, dueAt]));
  let waiting = arrivals.map(({ run }) => run);
  const queue: QueuedRun[] = [];
  let working: { run: QueuedRun; until: number }[] = [];
  const waits: number[] = [];
  const expected = waiting.filter((run) => watched(run.projectId)).length;
  for (let step = 0; waits.length < expected && step < 20_000; step += 1) {
    for (const { run } of working.filter(({ until }) => until <= step)) {
      if (watched(run.projectId)) waits.push(step - (dueAt.get(run.runId) ?? 0));
    }
    working = working.filter(({ until }) => until > step);
    const inFlight = [...queue, ...working.map(({ run }) => run)];
    const candidates = oldestOfEachExport(
      waiting.filter((run) => (dueAt.get(run.runId) ?? 0) <= step),
    );
    const chosen = pickFair(candidates, inFlight, limits, workers * 2 - inFlight.length);
    const ids = new Set(chosen.map(({ runId }) => runId));
    if (ids.size > 0) waiting = waiting.filter(({ runId }) => !ids.has(runId));
    queue.push(...chosen);
    while (working.length < workers) {
      const run = queue.shift();
      if (run === undefined) break;
      working.push({ run, until: step + 5 + ((run.intervalStart * 7) % 11) });
    }
  }
  expect(waits).toHaveLength(expected);
  return waits;
}

function oldestOfEachExport(waiting: readonly QueuedRun[]): QueuedRun[] {
  const seen = new Map<string, number>();
  return waiting.filter(({ exportId }) => {
    const count = (seen.get(exportId) ?? 0) + 1;
    seen.set(exportId, count);
    return count <= limits.perExport;
  });
}

function percentile95(waits: readonly number[]): number {
  return waits.toSorted((a, b) => a - b)[Math.floor(waits.length * 0.95)] ?? Number.NaN;
}
