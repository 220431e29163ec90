import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { canaryOf } from '../../support/canaries.ts';
import { type Random, randomOf } from '../../support/random.ts';
import { act, insertMoves, persistently, settleTimeoutSeconds, type World } from './world.ts';

/** Held transactions at a time. */
const maxHeld = 3;

const spellMs = 10_000;

/** Of prepared transactions that end in time. */
const gidPrefix = 'storm-';

/** Rows that arrive as applications write them: at once, late, prepared, two transactions in a message. */
export async function writeRows(world: World, signal: AbortSignal): Promise<void> {
  const { pool, tenant } = world.installation;
  const team = tenant.projectIds[0];
  const random = randomOf(world.seed, 'late rows');
  const held = new Set<Promise<void>>();
  let prepared = 0;
  await Promise.all([
    act(
      signal,
      () => 200,
      async () => {
        await pool.query(insertLive(team, 15));
        await insertMoves(pool, team, 4, null);
      },
    ),
    act(
      signal,
      () => random.between(300, 2_500),
      async () => {
        const [kind, other] = [random.next(), random.next()];
        const ms = random.between(500, 3 * settleTimeoutSeconds * 1_000);
        // Spells without a late row: runs settle at once.
        if (held.size >= maxHeld || Math.floor(performance.now() / spellMs) % 2 === 1) return;
        const late =
          kind < 0.4
            ? hold(world, ms, other < 0.3)
            : kind < 0.7
              ? prepare(world, `${gidPrefix}${++prepared}`, ms, other < 0.2)
              : twoInOneMessage(world, ms);
        const ended = late.catch(() => {});
        held.add(ended);
        void ended.finally(() => held.delete(ended));
      },
    ),
    act(
      signal,
      () => random.between(15_000, 30_000),
      () => oneForOne(world, random, signal),
    ),
  ]);
  await Promise.all(held);
  await commitPrepared(world, gidPrefix);
}

/** A prepared transaction that stays open. */
export async function leakOne(world: World): Promise<void> {
  const team = world.installation.tenant.projectIds[0];
  await persistently(() =>
    inSession(world, async (session) => {
      await session.query('begin');
      await session.query(insertLive(team, 1));
      await session.query(`prepare transaction 'leaked'`);
    }),
  );
}

export const insertLive = (team: number, rows: number) =>
  `insert into events (uuid, team_id, event, distinct_id, properties)
   select gen_random_uuid(), ${team}, 'live, "' || n || '"', 'user ' || n, jsonb_build_object('canary', '${canaryOf(team)}', 'n', n)
     from generate_series(1, ${rows}) n`;

export async function inSession<T>(
  world: World,
  work: (session: Client) => Promise<T>,
): Promise<T> {
  const session = new Client({ connectionString: world.installation.databaseUrl });
  session.on('error', () => {});
  await session.connect();
  try {
    return await work(session);
  } finally {
    await session.end().catch(() => {});
  }
}

/** A transaction that commits after the run of its interval has given up waiting. */
function hold(world: World, ms: number, savepoint: boolean): Promise<void> {
  const team = world.installation.tenant.projectIds[0];
  return inSession(world, async (session) => {
    await session.query('begin');
    if (savepoint) await session.query('select now(); savepoint one');
    else await session.query(insertLive(team, 2));
    await sleep(ms);
    await session.query(insertLive(team, 2));
    await insertHeldMoves(session, team);
    await session.query('commit');
  });
}

export function insertHeldMoves(session: Client, team: number): Promise<unknown> {
  return session.query(
    `insert into moves select gen_random_uuid(), ${team}, 'held', 1.5 from generate_series(1, 2)`,
  );
}

async function prepare(world: World, gid: string, ms: number, undo: boolean): Promise<void> {
  const team = world.installation.tenant.projectIds[0];
  await inSession(world, async (session) => {
    await session.query('begin');
    await session.query(insertLive(team, 2));
    await session.query(`prepare transaction '${gid}'`);
  });
  await sleep(ms);
  await inSession(world, (session) =>
    session.query(`${undo ? 'rollback' : 'commit'} prepared '${gid}'`),
  );
}

/** The second transaction has the time of the message. */
function twoInOneMessage(world: World, ms: number): Promise<void> {
  const team = world.installation.tenant.projectIds[0];
  const seconds = ms / 2_000;
  return inSession(world, async (session) => {
    await session.query(
      `begin; select pg_sleep(${seconds}); commit; begin; select pg_sleep(${seconds}); ${insertLive(team, 2)}; commit`,
    );
  });
}

/** A row is deleted from the very minute that a late row comes for: the count stays what it was. */
function oneForOne(world: World, random: Random, signal: AbortSignal): Promise<void> {
  const team = world.installation.tenant.projectIds[0];
  const afterMs = random.between(1_000, 2_000 * settleTimeoutSeconds + 4_000);
  return inSession(world, async (session) => {
    await session.query('begin');
    await session.query(insertLive(team, 1));
    const { rows } = await session.query<{ minute: Date; left: number }>(
      `select date_trunc('minute', now()) as minute,
              extract(epoch from date_trunc('minute', now()) + interval '1 minute' - now())::float8 as left`,
    );
    const [{ minute, left } = { minute: new Date(0), left: 0 }] = rows;
    await sleep(left * 1_000 + afterMs, undefined, { signal }).catch(() => {});
    const { rows: gone } = await world.installation.pool.query<{ uuid: string }>(
      `delete from events where uuid = (select uuid from events where team_id = $1 and event like 'live%'
          and inserted_at >= $2 and inserted_at < $2::timestamptz + interval '1 minute' order by uuid limit 1)
       returning uuid`,
      [team, minute],
    );
    for (const { uuid } of gone) world.deleted.add(uuid);
    await session.query('commit');
  });
}

/**
 * Rows leave the source after they were delivered, as retention and outbox tables do it, and others are changed. An export
 * that moves to other prefixes makes its files anew there, from what the source has then: its rows are not watched.
 */
export async function pruneRows(world: World, signal: AbortSignal): Promise<void> {
  const { installation, exports, seed } = world;
  const random = randomOf(seed, 'pruning');
  const watched = exports.filter(
    ({ model, changes }) => model === 'events' && changes !== 'prefix',
  );
  await act(
    signal,
    () => random.between(500, 2_000),
    async () => {
      const { rows } = await installation.pool.query<{ uuid: string; ids: readonly string[] }>(
        `delete from events v using (
           select e.uuid, array_agg(distinct c.export_id)::text[] as ids
             from events e join receipts c
               on e.inserted_at >= c.data_interval_start and e.inserted_at < c.data_interval_end
            where e.team_id = $1 and e.event not like 'live%' and c.export_id = any ($2)
            group by e.uuid order by e.uuid limit 3) old
          where v.uuid = old.uuid returning v.uuid, old.ids`,
        [installation.tenant.projectIds[0], watched.map(({ id }) => id)],
      );
      for (const { uuid, ids } of rows) {
        world.deleted.add(uuid);
        const delivered = watched.filter(({ id }) => ids.includes(id));
        for (const { name } of delivered) world.pruned.add(`${name}: ${uuid}`);
      }
    },
  );
}

/** Ends the prepared transactions of these names. */
export async function commitPrepared({ installation }: World, prefix: string): Promise<void> {
  await persistently(async () => {
    const { rows } = await installation.sql<{ gid: string }>`select gid from pg_prepared_xacts
      where starts_with(gid, ${prefix})`;
    for (const { gid } of rows) await installation.pool.query(`commit prepared '${gid}'`);
  });
}
