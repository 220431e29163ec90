import { expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import type { HandlerOptions } from '../../../src/service/worker/run-jobs.ts';
import { createSweep } from '../../../src/service/worker/sweep.ts';
import { attemptsOf, placeOf } from '../../support/attempts-at-places.ts';
import { createExportOfThePast, decide, hourMs, listRuns } from '../../support/run-side.ts';
import { useRunSide } from '../../support/use-run-side.ts';

const side = useRunSide({ retry: { maxAttempts: 1, baseMs: 1, capMs: 1 } });
const { work } = attemptsOf(side);

/** The sweep of a worker. Its long duties are not what is tested. */
function openSweep(done: string[]) {
  const note = (duty: string) => async () => void done.push(duty);
  return createSweep(
    {
      executor: { context: side.context, stopping: AbortSignal.abort(), connectors: {} },
      admission: {},
      courier: { collect: note('collect') },
      reports: { runsMade: () => {}, sampleFailed: () => {}, offboardingFailed: () => {} },
      verifySchedule: null,
    } as unknown as HandlerOptions,
    {
      async advance(id) {
        done.push(`advance ${id}`);
        if (id.startsWith('0')) throw new Error('its schedule is broken');
      },
      dispatch: note('dispatch'),
    },
  );
}

it('heals, advances and dispatches for all, although exports of one tenant are broken', async () => {
  const { id } = await createExportOfThePast(side, { createdMsAgo: hourMs });
  await decide(side.context);
  await work([id], placeOf(new SluiceError('destination.invalid_credentials')));
  await side.db.query(`update holes set next_try_at = now()`);
  const runs = (await listRuns(side.db, id)).length;

  const other = await createExportOfThePast(side, { deadlineMinutes: 5 });
  const broken = await createExportOfThePast(side, { deadlineMinutes: 5 });
  await side.db.query(`update batch_exports set schedule = '{}' where id = $1`, [broken.id]);
  await side.db.query(`update export_checks set next_check_at = now() - interval '1 s'`);
  const backfills = [
    '00000000-0000-7000-8000-000000000001',
    '10000000-0000-7000-8000-000000000002',
  ];
  for (const [index, exportId] of [broken.id, other.id].entries()) {
    await side.db.query(
      `insert into backfills (id, export_id, team_id, start_at, end_at, concurrency, total_runs)
       values ($1, $2, $3, '2024-01-01', '2024-01-02', 1, 1)`,
      [backfills[index], exportId, side.teamId],
    );
  }

  const done: string[] = [];
  await expect(openSweep(done)()).rejects.toThrow(
    `the deadline of export ${broken.id} cannot be judged; Error: its schedule is broken`,
  );
  expect((await listRuns(side.db, id)).length).toBe(runs + 1);
  expect(done.filter((duty) => duty.startsWith('advance')).toSorted()).toEqual(
    backfills.map((backfill) => `advance ${backfill}`),
  );
  expect(done).toContain('dispatch');
  const due = await side.db.query(`select from export_checks where next_check_at <= now()`);
  expect(due, 'the broken one is put off, the others are judged').toEqual([]);
});
