import { expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { heal } from '../../../src/service/use-cases/healing/heal.ts';
import { retryRun } from '../../../src/service/use-cases/runs/cancel-work.ts';
import { findRun } from '../../../src/state/store/runs/runs.ts';
import { attemptsOf, placeOf } from '../../support/attempts-at-places.ts';
import { createExportOfThePast, decide, hourMs, listRuns } from '../../support/run-side.ts';
import { useRunSide } from '../../support/use-run-side.ts';

const side = useRunSide({ retry: { maxAttempts: 2, baseMs: 1, capMs: 1 }, secondOpinionMs: 0 });
const { work } = attemptsOf(side);
const holesOf = (ids: readonly string[]) =>
  side.db.query('select from holes where export_id = any ($1::uuid[])', [ids]);

/** An export whose three intervals failed, at a place that is known not to work since then. */
async function failAll() {
  const place = placeOf(new SluiceError('destination.invalid_credentials'));
  const { id } = await createExportOfThePast(side, { createdMsAgo: 3 * hourMs });
  await decide(side.context);
  await work([id], place);
  const failed = await listRuns(side.db, id);
  expect(failed.map(({ status }) => status)).toEqual(['Failed', 'Failed', 'Failed']);
  const retry = async (index: number) => {
    const run = await findRun(side.db, id, failed[index]?.id ?? '');
    return run ? retryRun(side.context, run) : '';
  };
  /** @returns the requests that three runs of a backfill make */
  const requestsOfBackfill = async (reprocess: 'missing' | 'all') => {
    const before = place.requests;
    const [backfill] = await side.db.query<{ id: string }>(
      `insert into backfills (export_id, team_id, start_at, end_at, concurrency, total_runs, planned_to, reprocess)
       select id, team_id, now() - interval '3 hours', now(), 2, 3, now(), $2 from batch_exports where id = $1 returning id`,
      [id, reprocess],
    );
    for (const index of [0, 1, 2]) {
      const runId = await retry(index);
      await side.db.query('update runs set backfill_id = $2 where id = $1', [runId, backfill?.id]);
      await work([id], place);
    }
    return place.requests - before;
  };
  return { ids: [id], place, retry, requestsOfBackfill };
}

it('makes an attempt for what a person asks for, also at a place that is known not to work', async () => {
  const { ids, place, retry, requestsOfBackfill } = await failAll();
  const known = place.requests;
  // It still does not work: one request, and the interval fails again.
  await retry(0);
  await work(ids, place);
  expect(place.requests).toBe(known + 1);
  // A backfill of what has no data asks once for all its runs, also for those that it makes later.
  expect(await requestsOfBackfill('missing')).toBe(1);

  // The cause is fixed, and no probe is due: the retry shows it, and frees the others.
  place.error = null;
  await retry(0);
  await work(ids, place);
  expect(place.requests).toBe(known + 3);
  expect((await holesOf(ids)).length).toBe(2);
  await heal(side.context);
  await work(ids, place);
  expect(await holesOf(ids)).toEqual([]);
});

it('makes no attempt there for a backfill of something else', async () => {
  const { requestsOfBackfill } = await failAll();
  expect(await requestsOfBackfill('all')).toBe(0);
});
