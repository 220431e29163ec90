import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { ClaimedRun } from '../../../src/state/store/runs/claims.ts';
import { currentEra } from '../../../src/state/store/database/eras.ts';
import { retireDestination } from '../../../src/state/store/files/former-destinations.ts';
import { knowsCommit, type SeenCommit } from '../../../src/state/store/files/known-commits.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { acceptCurrentEra } from '../../../src/service/use-cases/installation/accept-era.ts';
import { emptyCommit, useRunSide } from '../../support/run-side.ts';
import { beginCommit } from '../../support/run-verbs.ts';
import {
  endRemoval,
  findTeamsWithRemovals,
  takeRemoval,
} from '../../../src/state/store/files/leftover-files.ts';

const side = useRunSide();

/** The first attempt of an export of the past, in one of the tenant's two projects. */
async function firstAttempt(project: 0 | 1 = 0): Promise<ClaimedRun> {
  const teamId = side.tenant.projectIds[project];
  const { id } = await side.createExport({ teamId });
  await side.decide();
  return side.claim((await side.firstRun(id)).id);
}

const commitOf = ({ fileGeneration: generation }: ClaimedRun, keys: readonly string[]) => ({
  ...{ generation, destinationVersion: 0, manifestKey: 'm.json', keys: [...keys, 'm.json'] },
});

describe('a commit that a bucket shows', () => {
  const seen = (run: ClaimedRun, changes: Partial<SeenCommit> = {}): SeenCommit => ({
    ...{ run_id: run.runId, generation: run.fileGeneration, era: run.era, ...changes },
  });
  const knows = (run: ClaimedRun, commit: SeenCommit) =>
    knowsCommit(side.db, run, commit, 'm.json');

  it('is known once it has begun, and is not if its run, generation or era is of another history', async () => {
    const run = await firstAttempt();
    expect(await knows(run, seen(run))).toBe(false);
    await beginCommit(side.db, run, 60_000, {}, commitOf(run, ['a']));
    expect(await knows(run, seen(run))).toBe(true);
    for (const generation of [2, 1e300, 1.5]) {
      expect(await knows(run, seen(run, { generation }))).toBe(false);
    }
    expect(await knows(run, seen(run, { run_id: randomUUID() }))).toBe(false);
    expect(await knows(run, seen(run, { era: randomUUID() }))).toBe(false);
  });

  it('is known at a place that the export has left, also if its run is no longer on record', async () => {
    const run = await firstAttempt();
    await side.complete(run);
    await side.sql`update receipts set manifest_key = 'm.json' where export_id = ${run.exportId}`;
    await side.db.transaction((tx) => retireDestination(tx, run.exportId));
    const again = await side.claim(await side.retry(run));
    await side.complete(again);
    const forgotten = seen(run, { run_id: randomUUID() });
    expect([await knows(run, forgotten), await knows(again, forgotten)]).toEqual([true, false]);
    expect(await knows(again, { ...forgotten, moved_to: 'x' })).toBe(true);
  });

  it('of a run that was live at a failover is known only if it had begun by then', async () => {
    const run = await firstAttempt();
    const committed = await firstAttempt(1);
    await beginCommit(side.db, committed, 60_000, {}, commitOf(committed, ['a']));
    await side.sql`update eras set timeline = timeline + 1`;
    const { id: era } = await currentEra(side.db);
    const next = await side.claim(run.runId);
    expect(next.era).toBe(era);
    await beginCommit(side.db, next, 60_000, {}, commitOf(next, ['a']));
    expect(await knows(next, seen(next))).toBe(true);
    // A copy of the server also executed the run in the era before.
    expect(await knows(next, seen(run))).toBe(false);
    expect(await knows(committed, seen(committed))).toBe(true);
    await acceptCurrentEra(side.db);
    expect(await knows(next, seen(run))).toBe(true);
    expect(await knows(next, seen(run, { era: randomUUID() }))).toBe(true);
  });

  // The last: it accepts an era.
  it('is known if it was put before an era was accepted, also after a failover, and is not if it was put later', async () => {
    const run = await firstAttempt();
    await acceptCurrentEra(side.db);
    const now = await readNow(side.db);
    const other = seen(run, { run_id: randomUUID() });
    const knowsAt = (putAt: number) => knowsCommit(side.db, run, other, 'm.json', putAt);
    expect(await knowsAt(now - 60_000)).toBe(true);
    // The clock of the store is ahead.
    expect(await knowsAt(now + 60_000)).toBe(true);
    expect(await knowsAt(now + 2 * 3_600_000)).toBe(false);
    await side.sql`update eras set timeline = timeline + 1`;
    await currentEra(side.db);
    expect(await knowsAt(now - 60_000)).toBe(true);
    // A copy of the server has this era too. What the original puts after the copy was made is another history.
    expect([await knowsAt(now + 60_000), await knows(run, other)]).toEqual([false, false]);
  });
});

/** An interval whose newest run has begun a commit of an older generation than the current one. */
async function brokenRerun(): Promise<ClaimedRun> {
  const { id } = await side.exportWithRuns(1);
  const first = await side.claim((await side.firstRun(id)).id);
  await beginCommit(side.db, first, 60_000, {}, emptyCommit);
  await side.complete(first);
  await side.sql`update receipts set generation = 9 where export_id = ${id}`;
  const rerun = await side.claim(await side.retry(first));
  const commit = { ...emptyCommit, generation: 2, manifestKey: 'm', keys: ['a', 'm'] };
  await beginCommit(side.db, rerun, 60_000, {}, commit);
  return rerun;
}

describe('files that a commit has left', () => {
  it('are not taken by the sweep while a run of the interval is live', async () => {
    const { runId, teamId } = await brokenRerun();
    expect(await findTeamsWithRemovals(side.db, 100)).not.toContain(teamId);
    expect(await takeRemoval(side.db, teamId)).toBe(null);
    await side.sql`update runs set status = 'Failed', finished_at = now() where id = ${runId}`;
    expect(await findTeamsWithRemovals(side.db, 100)).toContain(teamId);
    expect(await takeRemoval(side.db, teamId)).not.toBe(null);
  });

  it('are taken again at once if a removal was cut short, and else after an hour', async () => {
    const { runId, teamId } = await brokenRerun();
    await side.sql`update runs set status = 'Failed', finished_at = now() where id = ${runId}`;
    const work = await takeRemoval(side.db, teamId);
    if (!work) throw new Error('nothing to remove');
    await endRemoval(side.db, work, false);
    expect(await takeRemoval(side.db, teamId)).toBe(null);
    await endRemoval(side.db, work, true);
    expect(await takeRemoval(side.db, teamId)).not.toBe(null);
  });
});
