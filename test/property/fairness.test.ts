/** The properties of the dispatcher's choice, by their number in `src/service/scheduling/README.md`. */

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { QueuedRun } from '../../src/foundation/domain/run.ts';
import { pickFair } from '../../src/service/admission/fairness.ts';

const runs = { numRuns: 300 };

describe('fairness', () => {
  const anyRun: fc.Arbitrary<QueuedRun> = fc
    .record({
      projectId: fc.nat({ max: 5 }),
      exportNumber: fc.nat({ max: 3 }),
      isBackfill: fc.boolean(),
      intervalStart: fc.nat({ max: 50 }),
      number: fc.nat(),
    })
    .map(({ projectId, exportNumber, isBackfill, intervalStart, number }) => {
      const exportId = `${projectId}.${exportNumber}`;
      const organizationId = `organization ${projectId % 4}`;
      const backfillId = isBackfill ? `backfill of ${exportId}` : null;
      const runId = `${exportId}.${number}`;
      return { runId, organizationId, projectId, exportId, backfillId, intervalStart };
    });
  const anyRuns = fc.uniqueArray(anyRun, { selector: ({ runId }) => runId, maxLength: 60 });
  /** One of the organizations is crowding others. */
  const perOrganization = (id: string) => (id === 'organization 1' ? 1 : 9);
  const limits = { perOrganization, perProject: 6, perExport: 3, perBackfill: () => 2 };

  function countBy(all: readonly QueuedRun[], key: (run: QueuedRun) => string | null) {
    const counts = new Map<string, number>();
    for (const run of all) {
      const name = key(run);
      if (name !== null) counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    return counts;
  }

  test('P16 no choice passes a limit, and no free slot is left while a run could go', () => {
    fc.assert(
      fc.property(anyRuns, fc.nat({ max: 40 }), (waiting, slots) => {
        const chosen = pickFair(waiting, [], limits, slots);
        expect(chosen.length).toBeLessThanOrEqual(slots);
        const keys = [
          [(run: QueuedRun) => run.organizationId, limits.perOrganization],
          [(run: QueuedRun) => String(run.projectId), () => limits.perProject],
          [
            (run: QueuedRun) => (run.backfillId === null ? run.exportId : null),
            () => limits.perExport,
          ],
          [(run: QueuedRun) => run.backfillId, limits.perBackfill],
        ] as const;
        for (const [key, limitOf] of keys) {
          for (const [name, count] of countBy(chosen, key)) {
            expect(count).toBeLessThanOrEqual(limitOf(name));
          }
        }
        if (chosen.length === slots) return;
        const ids = new Set(chosen.map(({ runId }) => runId));
        for (const run of waiting.filter(({ runId }) => !ids.has(runId))) {
          const full = keys.some(([key, limitOf]) => {
            const name = key(run);
            return name !== null && (countBy(chosen, key).get(name) ?? 0) >= limitOf(name);
          });
          expect(full).toBe(true);
        }
      }),
      runs,
    );
  });

  test('P16 the choice does not depend on the order of the list, and is a prefix of a larger one', () => {
    fc.assert(
      fc.property(anyRuns, anyRuns, fc.nat({ max: 20 }), fc.nat(), (waiting, flying, slots, at) => {
        const turned = [...waiting.slice(at % 60), ...waiting.slice(0, at % 60)].toReversed();
        const chosen = pickFair(waiting, flying, limits, slots);
        expect(pickFair(turned, flying, limits, slots)).toEqual(chosen);
        expect(pickFair(waiting, flying, limits, slots + 5).slice(0, slots)).toEqual(chosen);
      }),
      runs,
    );
  });

  test('P16 runs beside count for the limits of their export and backfill, and change no turn', () => {
    fc.assert(
      fc.property(anyRuns, anyRuns, anyRuns, (waiting, flying, beside) => {
        const chosen = pickFair(waiting, flying, limits, 100, beside);
        const live = (run: QueuedRun) => (run.backfillId === null ? run.exportId : null);
        const besides = [...countBy(beside, live), ...countBy(beside, (run) => run.backfillId)];
        const counts = new Map([
          ...countBy([...flying, ...chosen], live),
          ...countBy([...flying, ...chosen], (run) => run.backfillId),
        ]);
        const taken = new Set(chosen.flatMap((run) => [live(run), run.backfillId]));
        for (const [lane, count] of besides) {
          if (!taken.has(lane)) continue;
          const most = lane.startsWith('backfill') ? limits.perBackfill() : limits.perExport;
          expect((counts.get(lane) ?? 0) + count).toBeLessThanOrEqual(most);
        }
        // Those of other exports are chosen as if nothing were beside.
        const lanes = new Set(besides.map(([lane]) => lane));
        const isFree = (run: QueuedRun) => !lanes.has(run.backfillId ?? run.exportId);
        const free = waiting.filter(isFree);
        expect(pickFair(free, flying, limits, 100, beside)).toEqual(
          pickFair(free, flying, limits, 100),
        );
      }),
      runs,
    );
  });

  test.each([
    ['a tenant', ({ organizationId }: QueuedRun) => organizationId],
    ['a project', ({ projectId }: QueuedRun) => String(projectId)],
  ])(
    'P16 %s is passed over only by those of its kind with no more in flight than it has',
    (kind, keyOf) => {
      fc.assert(
        fc.property(anyRuns, anyRuns, (waiting, flying) => {
          const inFlight = countBy(flying, keyOf);
          const lastTurns = new Map<string, number>();
          for (const run of pickFair(waiting, flying, limits, 100)) {
            const turn = inFlight.get(keyOf(run)) ?? 0;
            // Projects take turns within their organization.
            const among = kind === 'a tenant' ? 'all' : run.organizationId;
            expect(turn).toBeGreaterThanOrEqual(lastTurns.get(among) ?? 0);
            lastTurns.set(among, turn);
            inFlight.set(keyOf(run), turn + 1);
          }
        }),
        runs,
      );
    },
  );
});
