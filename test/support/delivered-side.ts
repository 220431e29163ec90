import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Pool } from 'pg';
import { vi } from 'vitest';
import { stringify } from 'yaml';
import type { DataInterval } from '../../src/foundation/domain/time.ts';
import { type Foundation, openFoundation } from '../../src/main/foundation.ts';
import type { Part } from '../../src/main/run-process.ts';
import { verifyInstallation } from '../../src/main/verify.ts';
import { startWorker } from '../../src/main/worker-process.ts';
import { insertRuns, type NewRun } from '../../src/state/store/runs/runs.ts';
import { createEmptyDatabase } from './database.ts';
import { withClient } from './drop-database.ts';
import { exportOfThePast, openRunSide } from './run-side.ts';
import { storeExport } from './store-export.ts';
import { sweepSoon } from './sweep-soon.ts';
import { until } from './until.ts';

/** Rows of each table that are delivered at first. */
export const deliveredCount = 200;

/** What a real source does after an hour was delivered. Each case has a table `T` of its own with an export. */
export interface SourceCase {
  readonly name: string;
  /** Before `table`: `unlogged`. */
  readonly kind?: string;
  /** SQL that makes `V`, which the model reads; default: it reads `T`. */
  readonly view?: string;
  /** SQL after the hour was delivered. */
  readonly event: string;
  /** Rows that are delivered afterwards. */
  readonly right: number;
  /** Whether the source's role may read some columns only, and no statistics of other roles. */
  readonly readsColumns?: boolean;
  /** Other properties of the model. */
  readonly model?: Readonly<Record<string, unknown>>;
}

export type DeliveredSide = Awaited<ReturnType<typeof openDeliveredSide>>;

const tableSql = `table T (id bigint primary key, team int not null, at timestamptz not null, v text, deleted_at timestamptz, secret text)`;
const rowsSql = `insert into T select g, $1, to_timestamp($2 / 1000.0) + g * interval '3 seconds', 'v' || g
  from generate_series(1, ${deliveredCount}) g`;

const fill = ({ name }: Pick<SourceCase, 'name'>, sql: string) =>
  sql.replaceAll(/\bT\b/g, `shop.${name}`).replaceAll(/\bV\b/g, `shop.${name}_view`);

const statementsOf = (each: SourceCase, sql = '') =>
  sql.split(';').flatMap((part) => (part.trim() === '' ? [] : [fill(each, part)]));

/** SQL that makes the table of a case again, empty. */
export const createTable = `create ${tableSql}`;

/**
 * A worker with exports of one hour to folders.
 *
 * @param env of the worker
 * @param shop holds the rows; default: a database of its own beside ours
 */
export async function openDeliveredSide(
  cases: readonly SourceCase[],
  env: Readonly<Record<string, string>>,
  shop?: { readonly url: string; readonly adminUrl: string },
) {
  const side = await openRunSide();
  const { db } = side;
  const folder = await mkdtemp(join(tmpdir(), 'delivered-'));
  const made = shop ? null : await createEmptyDatabase();
  const { url: shopUrl, adminUrl } = shop ?? made ?? { url: '', adminUrl: '' };
  const source = new Pool({ connectionString: shopUrl });
  // A restart of the source ends its idle connections.
  source.on('error', () => {});
  const wanted = await exportOfThePast(side);
  const start = wanted.schedule.openIntervalStart;
  const hour: DataInterval = { start, end: start + 3_600_000 };
  const role = `reader_${randomBytes(4).toString('hex')}`;
  await withClient(adminUrl, (client) =>
    client.query(`create role ${role} login password 'reader'`),
  );
  await source.query(
    `create schema shop; grant usage on schema shop to ${role}; create table shop.rolling_from as select 0 as kept`,
  );
  const exports = new Map<string, string>();
  for (const each of cases) {
    await source.query(fill(each, `create ${each.kind ?? ''} ${tableSql}`));
    await source.query(fill(each, rowsSql), [side.teamId, start]);
    for (const sql of statementsOf(each, each.view)) await source.query(sql);
    const columns = each.readsColumns ? '(id, team, at, v)' : '';
    await source.query(fill(each, `grant select ${columns} on T to ${role}`));
  }
  const models = cases.map(({ name, view, readsColumns, model }) => ({
    name,
    relation: `shop.${name}${view === undefined ? '' : '_view'}`,
    source: readsColumns ? 'READER_DATABASE_URL' : 'SHOP_DATABASE_URL',
    tenant_column: 'team',
    interval_column: 'at',
    key_columns: ['id'],
    columns: [
      { name: 'id', type: 'bigint' },
      { name: 'at', type: 'timestamptz' },
      { name: 'v', type: 'text' },
    ],
    // By default, the runs of a column with another type fail, and no file changes either.
    on_schema_change: 'follow',
    ...model,
  }));
  const file = join(folder, 'models.yaml');
  await writeFile(file, stringify({ models }));
  for (const { name } of cases) {
    const destination = { type: 'File', config: { directory: name }, secrets: null };
    const wantedExport = await exportOfThePast(side, { destination });
    const stored = await storeExport(db, { ...wantedExport, model: name });
    exports.set(name, stored?.id ?? '');
  }
  // The models file reads the environment of the process.
  const reader = new URL(shopUrl);
  vi.stubEnv('SHOP_DATABASE_URL', reader.href);
  reader.username = role;
  reader.password = 'reader';
  vi.stubEnv('READER_DATABASE_URL', reader.href);
  const config = side.workerConfig({
    SETTLE_TIMEOUT_SECONDS: '1',
    MODELS_FILE: file,
    FILE_DESTINATION_ROOT: folder,
    ...env,
  });
  let foundation: Foundation | null = null;
  let worker: Part | null = null;
  const idOf = (name: string) => exports.get(name) ?? '';

  /** The source may be restarted afterwards. */
  async function stop(): Promise<void> {
    await worker?.close();
    await foundation?.close();
    worker = null;
    foundation = null;
  }

  /** All that waits for its time is due, also the sweep that looks for it. */
  const hurry = async (name: string) => {
    if (foundation) await sweepSoon(foundation.producer.queues);
    await side.sql`update receipts set pending_checked_at = pending_checked_at - interval '3 hours',
              looked_back_at = looked_back_at - interval '3 hours' where export_id = ${idOf(name)}
                and late_rows_wait is null`;
  };

  return {
    side,
    source,
    idOf,
    stop,
    async start() {
      foundation = await openFoundation(config, 'worker');
      worker = await startWorker(foundation);
      await until(async () => (await side.sql`select from receipts`).length === cases.length, {
        timeoutMs: 60_000,
        message: 'all are delivered',
      });
    },
    /** Each statement in a transaction of its own. */
    async run(each: SourceCase) {
      for (const sql of statementsOf(each, each.event)) await source.query(sql);
    },
    /** The rows in the files of the current manifest. */
    async delivered(name: string): Promise<readonly Readonly<Record<string, unknown>>[]> {
      const [receipt] = await side.sql<{ key: string; files: { key: string }[] }>`
        select manifest_key as key, files from receipts where export_id = ${idOf(name)}`;
      const place = join(folder, name);
      const manifest = JSON.parse(await readFile(join(place, receipt?.key ?? ''), 'utf8'));
      const named: readonly { readonly key: string }[] = manifest.files;
      if (named.map(({ key }) => key).join() !== receipt?.files.map(({ key }) => key).join()) {
        throw new Error('the manifest names other files than the receipt');
      }
      const texts = await Promise.all(named.map(({ key }) => readFile(join(place, key), 'utf8')));
      const lines = texts.flatMap((text) => text.split('\n').slice(0, -1));
      return lines.map((line) => JSON.parse(line));
    },
    async snapshotOf(name: string) {
      const [row] = await side.sql<{ snapshot: string }>`
        select snapshot from receipts where export_id = ${idOf(name)}`;
      return row?.snapshot ?? '';
    },
    /** Changes the models file: for processes that start later. */
    async changeModel(name: string, changes: Readonly<Record<string, unknown>>) {
      const changed = models.map((one) => (one.name === name ? { ...one, ...changes } : one));
      await writeFile(file, stringify({ models: changed }));
    },
    /** What `sluice verify` finds. */
    async verify(name: string) {
      const choice = { batchExport: idOf(name) };
      const { results } = await verifyInstallation(config, db, side.url, choice);
      const [result] = results;
      if (!result) throw new Error(`${name} was not verified`);
      return result;
    },
    /** Until the interval was looked at again since `snapshot`, and what was to be done is done. */
    async untilLookedBack(name: string, snapshot: string) {
      await until(
        async () => {
          await hurry(name);
          const [row] = await side.sql<{ isDone: boolean }>`
            select snapshot <> ${snapshot} and not exists (select from runs where export_id = ${idOf(name)}
              and status in ('Starting', 'Running'))
                    as "isDone" from receipts where export_id = ${idOf(name)}`;
          return row?.isDone;
        },
        { timeoutMs: 60_000, everyMs: 200, message: `${name} was looked at again` },
      );
    },
    /** Until its late rows wait for a person. @returns why */
    async untilWaits(name: string) {
      return until(
        async () => {
          await hurry(name);
          const [row] = await side.sql<{ why: string | null }>`
            select late_rows_wait as why from receipts where export_id = ${idOf(name)}`;
          return row?.why ?? null;
        },
        { timeoutMs: 60_000, everyMs: 200, message: `${name} waits for a person` },
      );
    },
    /** Runs the hour again. @returns how that run ended */
    async ended(name: string, run: Partial<NewRun>) {
      const [id] = await insertRuns(db, [
        { exportId: idOf(name), teamId: side.teamId, interval: hour, backfillId: null, ...run },
      ]);
      return until(
        async () => {
          const [row] = await side.sql<{ status: string; error: string | null }>`
            select status, latest_error as error from runs where id = ${id}`;
          return row && ['Completed', 'Failed'].includes(row.status) ? row : null;
        },
        { timeoutMs: 60_000, message: 'the run has ended' },
      );
    },
    async close() {
      vi.unstubAllEnvs();
      await stop();
      await source.end();
      await withClient(adminUrl, (client) =>
        client.query(`drop owned by ${role}; drop role ${role}`),
      ).catch(() => {});
      await made?.drop();
      await side.stop();
      await rm(folder, { recursive: true });
    },
  };
}
