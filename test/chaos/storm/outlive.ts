import type { Client } from 'pg';
import { until } from '../../support/until.ts';
import { randomOf } from '../../support/random.ts';
import { commitPrepared, inSession, insertHeldMoves, insertLive } from './rows.ts';
import { act, persistently, type World } from './world.ts';

const gidPrefix = 'outlives-';

/** Exports with a run for each minute. */
const everyMinute = ['live', 'standby'];

/**
 * Transactions that end only after the run of their minute has completed: only a look-back finds their
 * rows. They are prepared, for a session would not outlive the restarts of the database. The one that is
 * open at the end of the rage is left to `endOutliving`.
 */
export async function outliveRuns(world: World, signal: AbortSignal): Promise<void> {
  const random = randomOf(world.seed, 'outliving');
  const outlive = async () => {
    const minute = await inSession(world, async (session) => {
      const begun = await begin(world, session);
      await session.query(`prepare transaction '${gidPrefix}${begun.getTime()}'`);
      return begun;
    });
    await until(async () => signal.aborted || (await hasCompleted(world, minute)), {
      timeoutMs: 180_000,
      everyMs: 200,
      message: () => `the run of ${minute.toISOString()} completes in the storm`,
    });
    if (signal.aborted) return;
    await persistently(() => commitPrepared(world, gidPrefix));
    world.counts.outlived += 1;
  };
  await outlive().catch(() => {});
  // Between them, runs settle at once.
  await act(signal, () => random.between(30_000, 60_000), outlive);
}

/**
 * After the rage, and one more, an open session: nothing breaks these, and no operator runs their intervals
 * again.
 */
export async function endOutliving(world: World): Promise<void> {
  await inSession(world, async (session) => {
    const minutes = [await begin(world, session)];
    const { rows } = await session.query<{ gid: string }>(
      'select gid from pg_prepared_xacts where starts_with(gid, $1)',
      [gidPrefix],
    );
    for (const { gid } of rows) minutes.push(new Date(Number(gid.slice(gidPrefix.length))));
    for (const minute of minutes) {
      await until(() => hasCompleted(world, minute), {
        timeoutMs: 240_000,
        everyMs: 200,
        message: () => `the run of ${minute.toISOString()} completes after the storm`,
      });
    }
    await session.query('commit');
    await commitPrepared(world, gidPrefix);
    world.counts.outlived += minutes.length;
  });
}

/** @returns the minute of its rows */
async function begin(world: World, session: Client): Promise<Date> {
  const team = world.installation.tenant.projectIds[0];
  await session.query('begin');
  await session.query(insertLive(team, 2));
  await insertHeldMoves(session, team);
  const { rows } = await session.query<{ minute: Date }>(
    `select date_trunc('minute', now()) as minute`,
  );
  return rows[0]?.minute ?? new Date(0);
}

/**
 * Whether each export of every minute has a Completed run of this one; or one that gave up, which the storm
 * repeats at its end.
 */
async function hasCompleted({ installation }: World, minute: Date): Promise<boolean> {
  const { rows } = await installation.sql<{ exports: number }>`select count(distinct e.name)::int
    as exports from runs r join batch_exports e on e.id = r.export_id
    where e.name = any (${everyMinute}) and r.data_interval_start = ${minute}
    and r.status in ('Completed', 'FailedRetryable')`;
  return rows[0]?.exports === everyMinute.length;
}
