import { describe, expect, it } from 'vitest';
import type { ClaimedRun } from '../../../src/state/store/runs/claims.ts';
import {
  endRemoval,
  findTeamsWithRemovals,
  takeRemoval,
} from '../../../src/state/store/files/leftover-files.ts';
import { findRun } from '../../../src/state/store/runs/runs.ts';
import { retryRun } from '../../../src/service/use-cases/runs/cancel-work.ts';
import {
  claim,
  complete,
  createExportOfThePast,
  decide,
  emptyCommit,
  firstRun,
  listRuns,
} from '../../support/run-side.ts';
import { beginCommit } from '../../support/run-verbs.ts';
import { useRunSide } from '../../support/use-run-side.ts';

const side = useRunSide();

/** An interval whose newest run has begun a commit of an older generation than the current one. */
async function brokenRerun(): Promise<ClaimedRun> {
  const { id } = await createExportOfThePast(side);
  await decide(side.context);
  const first = await claim(side, (await firstRun(side.db, id)).id);
  await beginCommit(side.db, first, 60_000, {}, emptyCommit);
  await complete(side.context, first);
  await side.db.query('update receipts set generation = 9 where export_id = $1', [id]);
  const ended = await findRun(side.db, id, first.runId);
  if (!ended) throw new Error('the run is missing');
  await retryRun(side.context, ended);
  const again = (await listRuns(side.db, id)).find((run) => run.id !== first.runId);
  const rerun = await claim(side, again?.id ?? '');
  const commit = { ...emptyCommit, generation: 2, manifestKey: 'm', keys: ['a', 'm'] };
  await beginCommit(side.db, rerun, 60_000, {}, commit);
  return rerun;
}

describe('files that a commit has left', () => {
  it('are not taken by the sweep while a run of the interval is live', async () => {
    const { runId, teamId } = await brokenRerun();
    expect(await findTeamsWithRemovals(side.db, 100)).not.toContain(teamId);
    expect(await takeRemoval(side.db, teamId)).toBe(null);
    await side.db.query(`update runs set status = 'Failed', finished_at = now() where id = $1`, [
      runId,
    ]);
    expect(await findTeamsWithRemovals(side.db, 100)).toContain(teamId);
    expect(await takeRemoval(side.db, teamId)).not.toBe(null);
  });

  it('are taken again at once if a removal was cut short, and else after an hour', async () => {
    const { runId, teamId } = await brokenRerun();
    await side.db.query(`update runs set status = 'Failed', finished_at = now() where id = $1`, [
      runId,
    ]);
    const work = await takeRemoval(side.db, teamId);
    if (!work) throw new Error('nothing to remove');
    await endRemoval(side.db, work, false);
    expect(await takeRemoval(side.db, teamId)).toBe(null);
    await endRemoval(side.db, work, true);
    expect(await takeRemoval(side.db, teamId)).not.toBe(null);
  });
});
