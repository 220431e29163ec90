import { Redis } from 'ioredis';
import { expect } from 'vitest';
import { readConfig } from '../../src/foundation/config/config.ts';
import { settings } from '../../src/foundation/config/settings.ts';
import { runMoves } from '../../src/foundation/domain/run.ts';
import { verifyInstallation } from '../../src/main/verify.ts';
import type { VerifyReport } from '../../src/service/verify/verify-exports.ts';
import { connectQueues } from '../../src/state/queue/connection.ts';
import { openQueuePool } from '../../src/state/store/database/database.ts';
import { canaryPattern } from './canaries.ts';
import { bucket, type Installation } from './installation.ts';
import { findLostRuns } from './lost-runs.ts';
import { sweepSoon } from './sweep-soon.ts';
import { until } from './until.ts';

/** What `sluice verify` counted. */
export interface Verified {
  readonly exports: number;
  readonly intervals: number;
  readonly files: number;
  readonly rows: number;
  readonly bytes: number;
  readonly unproven: readonly string[];
  /** Rows of the files that the source no longer has, has in another interval, or has got late. */
  readonly gone: number;
  readonly moved: number;
  readonly late: number;
}

export interface InvariantOptions {
  /** Whether rows may have left the source or moved in it, or may have come late; default false. */
  readonly sourceChanges?: boolean;
}

/**
 * Checks a whole installation against the invariants of the guarantees, I1 to I8. To be called at the
 * end of every test with real processes, once nothing runs any more; the API must be up.
 *
 * @returns what the current files hold, for the test to compare with what it put in
 */
export async function expectInvariants(
  installation: Installation,
  options: InvariantOptions = {},
): Promise<Verified> {
  await untilSwept(installation);
  const { verified, breaches } = await findBreaches(installation, options);
  expect(breaches).toEqual([]);
  return verified;
}

/** What killed workers left is collected within its age and a sweep; only a worker sweeps. */
async function untilSwept(installation: Installation): Promise<void> {
  const { pool, sql, workers } = installation;
  const isSwept = async () => {
    // An hour passes.
    await pool.query('update upload_places set look_at = now() where look_at > now()');
    return (
      (await pool.query(notSwept)).rowCount === 0 && (await pool.query(removable)).rowCount === 0
    );
  };
  if (await isSwept()) return;
  const sweeper = workers.every((worker) => worker.hasExited())
    ? await installation.startWorker()
    : null;
  const sweeping = async () => {
    await sweepInWorker(installation);
    return isSwept();
  };
  await until(sweeping, {
    timeoutMs: 90_000,
    everyMs: 400,
    message: 'every upload is completed or aborted, and every earlier file removed',
  }).catch(async (error: unknown) => {
    const { rows: uploads } = await sql`select p.*, e.name, e.deleted_at from upload_places p
      join batch_exports e on e.id = p.export_id limit 5`;
    const { rows: files } = await pool.query(removable.replace('select', 'select l.*'));
    throw new Error(`${String(error)}: ${JSON.stringify([uploads, files])}`);
  });
  sweeper?.kill('SIGTERM');
  await sweeper?.waitForExit(40_000);
}

async function sweepInWorker({ databaseUrl, redis }: Installation): Promise<void> {
  if (redis !== null) return;
  const { pool, close } = openQueuePool({
    connectionString: databaseUrl,
    applicationName: 'test',
    maxConnections: 2,
    onError: () => {},
  });
  const queue = connectQueues({ kind: 'postgres', pool }, () => {}).openQueue('sluice-control');
  try {
    await sweepSoon([queue]);
  } finally {
    await queue.close();
    await close();
  }
}

/** Places that may have uploads. The credentials of a deleted export may never have worked: nothing is there then. */
const notSwept = `select from upload_places p join batch_exports e on e.id = p.export_id
  where e.deleted_at is null or p.tries < 3 limit 1`;

/** Files that were replaced and that the sweep removes sooner or later. */
const removable = `select from leftover_files l join receipts c using (export_id, data_interval_start, data_interval_end, destination_version)
    join batch_exports e on e.id = l.export_id and e.deleted_at is null
  where case when c.manifest_key is not null then l.generation < c.generation
             else l.key not in (select f->>'key' from jsonb_array_elements(c.files || c.rejected_files) f) end
    -- It is deleted once more an hour later.
    and l.deleted_at is null
    -- A store without conditional writes keeps them for a day.
    and coalesce(e.store_traits->>'ifNoneMatch', 'true') = 'true' and coalesce(e.store_traits->>'ifMatch', 'quoted') <> 'none'`;

/** The same, without failing. */
export async function findBreaches(
  installation: Installation,
  options: InvariantOptions = {},
): Promise<{ readonly verified: Verified; readonly breaches: readonly string[] }> {
  const { verified, breaches } = await verify(installation, options);
  const found = [
    ...breaches,
    ...(await findIllegalMoves(installation)),
    ...(await findLostRuns(installation.db, null)).map(({ id, why }) => `run ${id}: ${why}`),
    ...(await installation.recording.findLostWrites()).map((text) => `I6: ${text}`),
    ...(await findSecrets(installation)),
    ...(await findForeignBytes(installation)),
    ...(await findNamedKeyViolations(installation)),
  ];
  return { verified, breaches: found };
}

/**
 * I1 to I4 and the part of I5 that our tables show: what `sluice verify` does, in this process. A process of its
 * own for each call took as long as many a test; `own-models` and `quickstart` run the command itself.
 */
async function verify(installation: Installation, { sourceChanges = false }: InvariantOptions) {
  const { findings, results, ...verified } = await readReport(installation);
  const breaches = findings.map(({ invariant, detail }) => `${invariant}: ${detail}`);
  if (!sourceChanges) breaches.push(...verified.remarks.map((text) => `I3: ${text}`));
  const unread = results.flatMap(({ id, failure }) =>
    failure === null ? [] : [`${id}: ${failure}`],
  );
  return { verified, breaches: [...breaches, ...unread] };
}

async function readReport({ env, db, databaseUrl }: Installation): Promise<VerifyReport> {
  // A models file names variables of this process. Another installation may have set them since.
  for (const [name, value] of Object.entries(env)) {
    if (name.endsWith('_URL') && !(name in settings)) process.env[name] = value;
  }
  const config = readConfig({ ...process.env, ...env });
  return verifyInstallation(config, db, config.SOURCE_DATABASE_URL ?? databaseUrl);
}

const legalMoves = new Set(
  Object.values(runMoves).flatMap(({ from, to }) => from.map((status) => `${status} ${to}`)),
);

/** I4 at every instant: what the S3 server saw happen to keys that a current manifest named. */
export async function findNamedKeyViolations({
  checksNamedKeys,
  s3,
}: Pick<Installation, 'checksNamedKeys' | 's3'>): Promise<readonly string[]> {
  if (!checksNamedKeys) return [];
  return (await s3.namedKeyViolations()).map((text) => `I4: ${text}`);
}

/**
 * I5: every change of every run, as the trigger of `recordMoves` saw it. One that takes a lease away, and changes the fence alone,
 * is no move: a run may still wait for its first claim when its export moves.
 */
async function findIllegalMoves({ sql }: Installation): Promise<readonly string[]> {
  const { rows } = await sql<Move>`select run_id as run, old_status as "from", new_status as "to",
            (old_status, old_attempt) is distinct from (new_status, new_attempt) as moves,
            new_fence > old_fence or (new_fence = old_fence and new_attempt = old_attempt) as rose
       from test_moves.runs`;
  return rows.flatMap(({ run, from, to, moves, rose }) => [
    ...(moves && !legalMoves.has(`${from} ${to}`)
      ? [`I5: run ${run} went from ${from} to ${to}`]
      : []),
    ...(rose ? [] : [`I5: run ${run} was claimed and its fence did not rise`]),
  ]);
}

interface Move extends Record<'run' | 'from' | 'to', string> {
  readonly moves: boolean;
  readonly rose: boolean;
}

/** Writes down every change of a run in a database under test. */
export const recordMoves = `
  create schema test_moves;
  create table test_moves.runs (run_id uuid, old_status text, new_status text,
    old_fence bigint, new_fence bigint, old_attempt int, new_attempt int);
  create function test_moves.record() returns trigger language plpgsql as $$
  begin
    insert into test_moves.runs values (new.id, old.status, new.status, old.fence, new.fence, old.attempt, new.attempt);
    return null;
  end $$;
  create trigger record_moves after update on runs for each row
    when ((old.status, old.fence, old.attempt) is distinct from (new.status, new.fence, new.attempt))
    execute function test_moves.record()`;

/** I7: secrets, as they are and in the codings that hide them from a plain search. */
async function findSecrets(installation: Installation): Promise<readonly string[]> {
  const { processes, recording, redis, s3, secrets } = installation;
  const needles = [...secrets].flatMap(([name, secret]) => [
    { name, needle: secret },
    { name: `${name} in hex`, needle: Buffer.from(secret).toString('hex') },
    {
      name: `${name} in base64`,
      needle: Buffer.from(secret).toString('base64').replace(/=+$/, ''),
    },
  ]);
  const places: [string, string][] = [
    ...processes.map(({ pid, output }): [string, string] => [`the log of ${pid}`, output()]),
    ...recording.answers.map(({ text }): [string, string] => ['an answer of the API', text]),
    ...(redis ? await listRedisTexts(redis.url) : []),
    ...(await s3.objects(bucket)).map(({ key, metadata }): [string, string] => [
      `the metadata of ${key}`,
      JSON.stringify(metadata),
    ]),
  ];
  const found = places.flatMap(([place, text]) =>
    needles
      .filter(({ needle }) => text.includes(needle))
      .map(({ name }) => `I7: ${place} holds ${name}`),
  );
  return [...new Set([...found, ...(await findSecretRows(installation, needles))])];
}

/** Every row of every table but the source's: ours and the queue's, whole, as text. */
async function findSecretRows(
  { pool }: Installation,
  needles: readonly { readonly name: string; readonly needle: string }[],
): Promise<readonly string[]> {
  const { rows: tables } = await pool.query<{ name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name
       from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind = 'r' and n.nspname !~ '^(pg_|information_schema$)' and c.relname <> 'events'`,
  );
  const found: string[] = [];
  for (const { name: table } of tables) {
    const { rows } = await pool.query<{ name: string }>(
      `select distinct n.name from ${table} t, unnest($1::text[], $2::text[]) as n (name, needle)
        where strpos(t::text, n.needle) > 0`,
      [needles.map(({ name }) => name), needles.map(({ needle }) => needle)],
    );
    found.push(...rows.map(({ name }) => `I7: table ${table} holds ${name}`));
  }
  return found;
}

/** I8: rows of `insertEvents` carry their team's canary; each may be in its own team's files only. */
async function findForeignBytes(installation: Installation): Promise<readonly string[]> {
  const { sql, processes, recording, s3, teamOfKey } = installation;
  const foreign = (place: string, text: string, team: number | null) =>
    [...new Set([...text.matchAll(canaryPattern)].map(([, found]) => Number(found)))]
      .filter((found) => found !== team)
      .map((found) => `I8: ${place} holds a row of team ${found}`);

  const { rows: exports } = await sql<{ id: string; team: number; deleted: boolean }>`select id,
    team_id as team, deleted_at is not null as deleted from batch_exports`;
  const teams = new Map(exports.map(({ id, team }) => [id, team]));
  const deleted = new Set(exports.filter((one) => one.deleted).map(({ id }) => id));
  const found: string[] = [];
  for (const { key, metadata } of await s3.objects(bucket)) {
    const exportId = metadata['sluice-export'] ?? key.split('/')[0] ?? '';
    if (deleted.has(exportId)) continue;
    const team = teams.get(exportId) ?? null;
    const body = await s3.body(bucket, key);
    // Bytes as characters: the canary is ASCII, and no file is too long for that.
    found.push(...foreign(key, body.toString('latin1'), team));
  }
  const { rows: entries } = await sql<{ message: string; team: number }>`select message, team_id
    as team from log_entries where message like '%canary%'`;
  for (const { message, team } of entries) found.push(...foreign('a log entry', message, team));
  for (const { pid, output } of processes) {
    found.push(...foreign(`the log of process ${pid}`, output(), null));
  }
  for (const { key, text } of recording.answers) {
    found.push(...foreign('an answer of the API', text, teamOfKey.get(key ?? '') ?? null));
  }
  return found;
}

/** Every key of a Redis with its value as text. */
async function listRedisTexts(url: string): Promise<[place: string, text: string][]> {
  const redis = new Redis(url, { maxRetriesPerRequest: 1 });
  try {
    const texts: [string, string][] = [];
    for await (const keys of redis.scanStream({ count: 500 }) as AsyncIterable<string[]>) {
      for (const key of keys) {
        const value = await readValue(redis, key);
        texts.push([`the Redis key ${key}`, `${key} ${JSON.stringify(value)}`]);
      }
    }
    return texts;
  } finally {
    redis.disconnect();
  }
}

async function readValue(redis: Redis, key: string): Promise<unknown> {
  const type = await redis.type(key);
  switch (type) {
    case 'string':
      return redis.get(key);
    case 'hash':
      return redis.hgetall(key);
    case 'list':
      return redis.lrange(key, '0', '-1');
    case 'set':
      return redis.smembers(key);
    case 'zset':
      return redis.zrange(key, '0', '-1');
    case 'stream':
      return redis.xrange(key, '-', '+');
    case 'none':
      // It has expired since it was listed.
      return null;
    default:
      throw new Error(`${key} is a ${type}`);
  }
}
