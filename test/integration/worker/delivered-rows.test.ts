import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { stringify } from 'yaml';
import { readConfig } from '../../../src/config/config.ts';
import type { DataInterval } from '../../../src/domain/time.ts';
import { type Foundation, openFoundation } from '../../../src/main/foundation.ts';
import type { Part } from '../../../src/main/run-process.ts';
import { startWorker } from '../../../src/main/worker-process.ts';
import { insertRuns, type NewRun } from '../../../src/store/runs.ts';
import { exportOfThePast, openRunSide, type RunSide } from '../../support/run-side.ts';
import { storeExport } from '../../support/store-export.ts';
import { until } from '../../support/until.ts';

/** What real sources do after an hour was delivered. Each case has a table of its own with `count` rows in that hour. */
const count = 200;

interface Case {
  readonly name: string;
  /** What the model reads; default: the table. Made before the export. */
  readonly view?: string;
  /** SQL after the hour was delivered. `T` is the table. */
  readonly event: string;
  /** Rows that are delivered afterwards. */
  readonly right: number;
}

const prune = `delete from T where id <= 180;`;
const cases: readonly Case[] = [
  { name: 'pruned', event: prune, right: count },
  { name: 'updated', event: `${prune} update T set v = v || '!' where id = 190;`, right: count },
  {
    name: 'retyped',
    event: `${prune} alter table T alter column v type varchar(200);`,
    right: count,
  },
  {
    name: 'filled',
    event: `${prune} alter table T add column w int; update T set w = 1;`,
    right: count,
  },
  {
    name: 'softly_deleted',
    view: 'create view V as select id, team, at, v from T where deleted_at is null',
    event: 'update T set deleted_at = now() where id <= 180;',
    right: count,
  },
  {
    name: 'rolling',
    view: 'create view V as select id, team, at, v from T where id > (select kept from shop.rolling_from)',
    event: 'update shop.rolling_from set kept = 180;',
    right: count,
  },
  { name: 'truncated', event: 'truncate T;', right: count },
  {
    name: 'recreated',
    event: 'alter table T rename to gone; create table T (like shop.gone including all);',
    right: count,
  },
  {
    name: 'late_and_pruned',
    event: `${prune} insert into T select 2001, team, at, v from T where id = 190;`,
    right: count + 1,
  },
  {
    name: 'late_behind_a_view',
    view: 'create view V as select id, team, at, v from T where deleted_at is null',
    event: `update T set deleted_at = now() where id <= 180; insert into T select 2001, team, at, v from T where id = 190;`,
    right: count + 1,
  },
  {
    name: 'attached_and_pruned',
    view: 'create table V (like T) partition by range (at); alter table V attach partition T default',
    event: `delete from T where id <= 180; create table shop.older (like T including all);
      insert into shop.older select 2001, team, at + interval '1 second' * 0, v from T where id = 190;
      alter table T_parts detach partition T; delete from T where id = 190;
      alter table T_parts attach partition shop.older default;`,
    right: count + 1,
  },
];

describe('delivered rows', () => {
  let side: RunSide;
  let folder: string;
  let reader: string;
  let foundation: Foundation;
  let worker: Part | null = null;
  let hour: DataInterval;
  const exports = new Map<string, string>();

  beforeAll(async () => {
    side = await openRunSide();
    folder = await mkdtemp(join(tmpdir(), 'delivered-'));
    const wanted = await exportOfThePast(side);
    const start = wanted.schedule.openIntervalStart;
    hour = { start, end: start + 3_600_000 };
    await side.db.query('create schema shop');
    await side.db.query('create table shop.rolling_from as select 0 as kept');
    for (const each of cases) {
      await side.db.query(fill(each, tableSql), []);
      await side.db.query(fill(each, rowsSql), [side.teamId, start]);
      for (const sql of each.view?.split(';') ?? []) await side.db.query(fill(each, sql));
    }
    reader = `reader_${randomBytes(4).toString('hex')}`;
    await side.db.query(`create role ${reader} login password 'reader'`);
    await side.db.query(`grant usage on schema shop to ${reader}`);
    await side.db.query(
      `create table shop.granted (id bigint primary key, team int, at timestamptz, v text, secret text)`,
    );
    await side.db.query(`insert into shop.granted select id, team, at, v from shop.pruned`);
    await side.db.query(`grant select (id, team, at, v) on shop.granted to ${reader}`);
    const models = [
      ...cases.map((each) => modelOf(each.name, relationOf(each))),
      { ...modelOf('granted', 'shop.granted'), source: 'READER_DATABASE_URL' },
    ];
    const file = join(folder, 'models.yaml');
    await writeFile(file, stringify({ models }));
    for (const { name } of models) {
      const destination = { type: 'File', config: { directory: name }, secrets: null };
      const stored = await storeExport(side.db, {
        ...(await exportOfThePast(side, { destination })),
        model: name,
      });
      exports.set(name, stored?.id ?? '');
    }
    const readerUrl = new URL(side.url);
    readerUrl.username = reader;
    readerUrl.password = 'reader';
    // The models file reads the environment of the process.
    vi.stubEnv('READER_DATABASE_URL', readerUrl.href);
    const config = readConfig({
      DATABASE_URL: side.url,
      ENCRYPTION_KEYS: `test:${randomBytes(32).toString('base64')}`,
      LOG_LEVEL: 'silent',
      MAX_JITTER_SECONDS: '0',
      LATE_LOOKBACK_HOURS: '3',
      SETTLE_TIMEOUT_SECONDS: '1',
      MODELS_FILE: file,
      FILE_DESTINATION_ROOT: folder,
    });
    foundation = await openFoundation(config, 'worker');
    worker = await startWorker(foundation);
    await until(
      async () => (await side.db.query('select from receipts')).length === models.length,
      { timeoutMs: 60_000, message: 'all are delivered' },
    );
  });

  afterAll(async () => {
    vi.unstubAllEnvs();
    await worker?.close();
    await foundation?.close();
    await side.db.query(`drop owned by ${reader}; drop role ${reader}`).catch(() => {});
    await side.stop();
    await rm(folder, { recursive: true });
  });

  const fill = ({ name }: Pick<Case, 'name'>, sql: string) =>
    sql
      .replaceAll(/\bT_parts\b/g, `shop.${name}_view`)
      .replaceAll(/\bT\b/g, `shop.${name}`)
      .replaceAll(/\bV\b/g, `shop.${name}_view`);
  const tableSql = `create table T (id bigint primary key, team int not null, at timestamptz not null, v text, deleted_at timestamptz)`;
  const rowsSql = `insert into T select g, $1, to_timestamp($2 / 1000.0) + g * interval '3 seconds', 'v' || g
    from generate_series(1, ${count}) g`;
  const relationOf = ({ name, view }: Case) => `shop.${name}${view === undefined ? '' : '_view'}`;
  const modelOf = (name: string, relation: string) => ({
    name,
    relation,
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
  });

  const idOf = (name: string) => exports.get(name) ?? '';

  /** The keys in the files of the current manifest. */
  async function delivered(name: string): Promise<readonly number[]> {
    const [receipt] = await side.db.query<{ key: string; files: { key: string }[] }>(
      `select manifest_key as key, files from receipts where export_id = $1`,
      [idOf(name)],
    );
    const place = join(folder, name);
    const manifest = JSON.parse(await readFile(join(place, receipt?.key ?? ''), 'utf8'));
    expect(manifest.files.map(({ key }: { key: string }) => key)).toEqual(
      receipt?.files.map(({ key }) => key),
    );
    const keys: number[] = [];
    for (const { key } of manifest.files) {
      const lines = (await readFile(join(place, key), 'utf8')).split('\n').slice(0, -1);
      keys.push(...lines.map((line) => JSON.parse(line).id));
    }
    return keys;
  }

  const snapshotOf = async (name: string) => {
    const [row] = await side.db.query<{ snapshot: string; live: number }>(
      `select snapshot, (select count(*) from runs where export_id = $1 and status in ('Starting', 'Running'))::int as live
         from receipts where export_id = $1`,
      [idOf(name)],
    );
    return row;
  };

  /** Until the interval was looked at again, and what was to be done is done. */
  async function untilLookedBack(name: string, before: string | undefined): Promise<void> {
    await until(
      async () => {
        await side.db.query(
          `update receipts set pending_checked_at = pending_checked_at - interval '3 hours',
                  looked_back_at = looked_back_at - interval '3 hours' where export_id = $1`,
          [idOf(name)],
        );
        const now = await snapshotOf(name);
        return now?.snapshot !== before && now?.live === 0;
      },
      { timeoutMs: 60_000, message: `${name} was looked at again` },
    );
  }

  async function ended(
    name: string,
    run: Partial<NewRun>,
  ): Promise<{ status: string; error: string | null }> {
    const [id] = await insertRuns(side.db, [
      { exportId: idOf(name), teamId: side.teamId, interval: hour, backfillId: null, ...run },
    ]);
    return until(
      async () => {
        const [row] = await side.db.query<{ status: string; error: string | null }>(
          'select status, latest_error as error from runs where id = $1',
          [id],
        );
        return row && ['Completed', 'Failed'].includes(row.status) ? row : null;
      },
      { timeoutMs: 60_000, message: 'the run has ended' },
    );
  }

  it.each(cases)(
    'stay delivered when the source is $name, and a late one is added',
    async (each) => {
      const before = await snapshotOf(each.name);
      expect(await delivered(each.name)).toHaveLength(count);
      // One transaction for each statement: a table that is replaced in the middle of one is another case.
      for (const sql of each.event.split(';').filter((part) => part.trim() !== '')) {
        await side.db.query(fill(each, sql));
      }
      await untilLookedBack(each.name, before?.snapshot);
      const keys = await delivered(each.name);
      expect(new Set(keys).size).toBe(each.right);
      expect(keys).toHaveLength(each.right);
      const failed = await side.db.query(
        `select latest_error from runs where export_id = $1 and status <> 'Completed'`,
        [idOf(each.name)],
      );
      expect(failed).toEqual([]);
    },
  );

  it('of a role that may read some columns only: late rows are found without their writers', async () => {
    const before = await snapshotOf('granted');
    await side.db.query('delete from shop.granted where id <= 180');
    await side.db.query(
      `insert into shop.granted select 2001, team, at, v from shop.granted where id = 190`,
    );
    await untilLookedBack('granted', before?.snapshot);
    expect(await delivered('granted')).toHaveLength(count + 1);
  });

  it('stay when another start of the server forgets who wrote what', async () => {
    const before = (await snapshotOf('pruned'))?.snapshot ?? '';
    await side.db.query(
      `update receipts set snapshot = split_part(snapshot, '@', 1) || '@1' where export_id = $1`,
      [idOf('pruned')],
    );
    await side.db.query('delete from shop.pruned where id = 181');
    await untilLookedBack('pruned', `${before.split('@')[0]}@1`);
    expect(await delivered('pruned')).toHaveLength(count);
  });

  it('are not replaced by fewer, unless a person asks for it', async () => {
    const refused = await ended('truncated', {});
    expect(refused).toEqual({
      status: 'Failed',
      error: expect.stringMatching(
        /^source.rows_missing: .*200 rows are delivered, 0 rows are in the new files, and 200 delivered rows are missing/s,
      ),
    });
    expect(await delivered('truncated')).toHaveLength(count);
    expect(await ended('truncated', { dropsMissing: true })).toMatchObject({ status: 'Completed' });
    expect(await delivered('truncated')).toEqual([]);
  });

  it('wait for a person if the export has another destination now', async () => {
    const { db } = side;
    const id = idOf('filled');
    await db.query(
      `update batch_exports set destination_version = destination_version + 1 where id = $1`,
      [id],
    );
    await db.query(
      `insert into shop.filled select 2001, team, at, v, null, 1 from shop.filled where id = 190`,
    );
    const [wait] = await until(
      async () => {
        await db.query(
          `update receipts set pending_checked_at = pending_checked_at - interval '3 hours',
                  looked_back_at = looked_back_at - interval '3 hours' where export_id = $1 and late_rows_wait is null`,
          [id],
        );
        const rows = await db.query<{ why: string }>(
          `select late_rows_wait as why from receipts where export_id = $1 and late_rows_wait is not null`,
          [id],
        );
        return rows.length > 0 ? rows : null;
      },
      { timeoutMs: 60_000, message: 'it waits' },
    );
    expect(wait?.why).toContain('the export has another destination now');
    const logged = await db.query(
      `select from log_entries where export_id = $1 and level = 'WARNING' and message like '%run.late_rows_wait%'`,
      [id],
    );
    expect(logged).toHaveLength(1);
    expect(await delivered('filled')).toHaveLength(count);
  });
});
