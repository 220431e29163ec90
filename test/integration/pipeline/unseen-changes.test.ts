import { expect, it } from 'vitest';
import type { Model } from '../../../src/foundation/domain/model.ts';
import { triggerStatements } from '../../../src/rows/changes/trigger-sql.ts';
import { checkModel, createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import { changingModel, tenant, runSql } from '../../support/changing-table.ts';
import { openedBy } from '../../support/interval-bench.ts';
import { atNight, firstByDay } from '../../support/nightly.ts';
import { startOwnPostgres } from '../../support/postgres-server.ts';
import { follow, SequenceReader, SequenceSide } from '../../support/sequence-side.ts';
import { until } from '../../support/until.ts';
import { useEach, useStage } from '../../support/use-stage.ts';

const server = useStage(startOwnPostgres);
const opened = useEach(openedBy.File);

const sql = (...statements: readonly string[]) => runSql(server.adminUrl, ...statements);

const insert = (table: string, id: number) =>
  `insert into ${table} values (${id}, ${tenant}, 0, 'row ${id}', ${id})`;
const anyColumns = 'id bigint primary key, team int, kind int, note text, price numeric(10,2)';

/** A table with what `sluice models trigger` prints for it, read by a role with no more than SELECT. */
async function open(
  name: string,
  { about = {}, days = null as number | null, columns = anyColumns, options = '' } = {},
) {
  const gone = { schema: 'public', name: `gone_${name}` };
  const model: Model = {
    ...{ ...changingModel, relation: { schema: 'public', name } },
    changes: {
      ...{ versionColumn: 'version', setBy: 'database' },
      deletes: { kind: 'tombstones', relation: gone, days },
    },
    ...about,
  };
  await sql(
    `create table ${name} (${columns}) ${options}`,
    ...triggerStatements(model).map((one) => one.sql),
    `grant select on ${name}, gone_${name} to public`,
  );
  const { url: connectionString } = server;
  const plan = planModels([model]);
  const source = createPostgresSource({ connectionString, plan, keepConnectionMs: 5_000 });
  const side = new SequenceSide(source, opened.destination);
  const reader = new SequenceReader();
  const next = async (...statements: readonly string[]) => {
    await sql(...statements);
    return follow(side, reader, opened.destination);
  };
  const refusal = (code: string, text = '') =>
    expect(side.attempt('recorded')).rejects.toMatchObject({
      ...{ code, detail: expect.stringContaining(text) },
    });
  return { model, side, reader, next, refusal };
}

/** The server counts deleted rows a moment after their transaction. */
const untilCounted = (table: string, count: number) =>
  until(
    async () => {
      const read = `select pg_stat_get_tuples_deleted('${table}'::regclass)::int as n`;
      const [row] = await sql('select pg_stat_force_next_flush()', read);
      return row?.n === count;
    },
    { message: `${table} has lost ${count}` },
  );

it('tombstones that were deleted make a base', async () => {
  const { next, reader } = await open('pruned');
  await next(insert('pruned', 1), insert('pruned', 2));
  await sql('delete from pruned where id = 1', 'delete from gone_pruned');
  await untilCounted('gone_pruned', 1);
  expect([await next(), [...reader.rows.keys()]]).toEqual(['tombstones', ['2']]);
  expect(await next('delete from pruned where id = 2')).toBe(null);
});

atNight('tombstones that were deleted make no base if the model says when they are', async () => {
  const named = await open('named', { days: 1 });
  await named.next(insert('named', 1), insert('named', 2));
  await named.next('delete from named where id = 1');
  await sql('delete from gone_named');
  await untilCounted('gone_named', 1);
  expect(await named.next('delete from named where id = 2')).toBe(null);
});

it('a policy that shows rows without a write is refused, and one that reads columns and settings is not', async () => {
  const about = { rowSecurity: 'filtered' as const };
  const { next, reader, refusal } = await open('ruled', { about });
  await sql('create table allowed (id bigint)', 'grant select on allowed to public');
  await sql(
    `create function is_allowed(bigint) returns bool stable language sql as 'select true'`,
    'alter table ruled enable row level security',
    `create policy mine on ruled using (note = 'row 1' and team = current_setting('sluice.tenant_key')::int and current_user <> 'x')`,
  );
  expect(await next(insert('ruled', 1), insert('ruled', 2))).toBe('first');
  expect([...reader.rows.keys()]).toEqual(['1']);
  for (const condition of firstByDay(2, [
    'id in (select id from allowed)',
    `price < extract(epoch from now())`,
    `current_date > '2024-01-01'`,
    'is_allowed(id)',
  ])) {
    await sql(`create policy moving on ruled for select using (${condition})`);
    await refusal('source.model_invalid', 'the policy moving reads another table or the time');
    await sql('drop policy moving on ruled');
  }
  // A policy for somebody else, until the role becomes one of them.
  await sql('create role others', 'create policy theirs on ruled to others using (id = 2)');
  await next();
  expect([await next(), await next(`grant others to ${role()}`)]).toEqual([null, 'table']);
  expect([...reader.rows.keys()].toSorted()).toEqual(['1', '2']);
});

const role = () => new URL(server.url).username;

it('a trigger that names the column and does not set it is refused, and so is one with a condition', async () => {
  const { next, refusal } = await open('stamped');
  await next(insert('stamped', 1));
  const stamp = (body: string) =>
    sql(
      `create or replace function sluice_stamp_stamped() returns trigger language plpgsql as $$ begin ${body} return new; end $$`,
    );
  for (const body of [
    '-- new.version := pg_current_xact_id();\n',
    '/* new.version := 1 */ new.note /* version */ := 1;',
    `if new.version = '1' then new.note := ''; end if;`,
    "raise debug '%', new.version;",
  ]) {
    await stamp(body);
    await refusal('model.version_without_trigger');
  }
  for (const body of [
    'NEW . "version" = pg_current_xact_id();',
    'if true then new.version=pg_current_xact_id(); end if;',
    'select pg_current_xact_id() into strict new.version;',
    `select 1, pg_current_xact_id() into new.kind, new.version;`,
    'declare made stamped := new; begin made.version := pg_current_xact_id(); return made; end;',
    `new = jsonb_populate_record(new, jsonb_build_object('version', pg_current_xact_id()::text));`,
    `new := jsonb_populate_record(new, jsonb_build_object('version', pg_current_xact_id()::text));`,
  ]) {
    await stamp(body);
    await next(`update stamped set note = 'again'`);
  }
  const again = (when: string) =>
    sql(
      'drop trigger zz_sluice_stamp on stamped',
      `create trigger zz_sluice_stamp before insert or update on stamped for each row ${when} execute function sluice_stamp_stamped()`,
      'alter table stamped enable always trigger zz_sluice_stamp',
    );
  await again(`when (new.note <> 'quiet')`);
  await refusal('model.version_without_trigger', 'without a condition');
  await again('');
  // A key that changes leaves its old one behind.
  await sql('drop trigger zz_sluice_moved on stamped');
  await refusal('model.version_without_trigger', 'each update of a key');
});

it('rows that move between partitions arrive, and a partition elsewhere is refused', async () => {
  const { next, reader, refusal } = await open('parted', {
    columns: anyColumns.replace(' primary key', ''),
    options: 'partition by list (kind)',
  });
  const part = (kind: number) =>
    `create table parted_${kind} partition of parted for values in (${kind})`;
  await next(part(0), part(1), insert('parted', 1), insert('parted', 2));
  expect(await next('update parted set kind = 1 where id = 1')).toBe(null);
  expect(await next('delete from parted where id = 1', 'update parted set kind = 1')).toBe(null);
  expect([...reader.rows.keys()]).toEqual(['2']);
  await sql(
    'create foreign data wrapper elsewhere',
    'create server elsewhere foreign data wrapper elsewhere',
    'create foreign table parted_2 partition of parted for values in (2) server elsewhere',
  );
  await refusal('source.model_invalid', 'a foreign or an unlogged table');
  await sql('drop foreign table parted_2');
  expect(await next()).toBe(null);
});

atNight(
  'a generated column arrives with its row, and another expression makes a base',
  async () => {
    const { next, reader } = await open('computed', {
      columns: anyColumns.replace(
        'price numeric(10,2)',
        'price numeric(10,2) generated always as (id * 2) stored',
      ),
    });
    const put = (id: number) => `insert into computed values (${id}, ${tenant}, 0, 'row')`;
    await next(put(1));
    expect(await next('update computed set id = 4', put(2))).toBe(null);
    expect([...reader.rows.values()].map((row) => JSON.parse(row).price).toSorted()).toEqual([
      4, 8,
    ]);
    expect(
      await next(
        'alter table computed drop column price',
        'alter table computed add column price numeric(10,2) generated always as (id * 3) stored',
      ),
    ).toBe('table');
    expect([...reader.rows.values()].map((row) => JSON.parse(row).price).toSorted()).toEqual([
      12, 6,
    ]);
  },
);

atNight(
  'models check warns of a missing index of the version, and of none that an element can use',
  async () => {
    const { model } = await open('indexed');
    const warnings = async () => {
      const { findings } = await checkModel(server.adminUrl, model, [tenant]);
      return findings.filter(({ detail }) => detail.startsWith('source.no_version_index'));
    };
    expect(await warnings()).toEqual([]);
    await sql('drop index sluice_version_indexed');
    const warning = {
      severity: 'warning',
      detail:
        'source.no_version_index: each element reads the whole table. Create an index on (team, version).',
    };
    expect(await warnings()).toEqual([warning]);
    // Of some rows, or by another column first.
    await sql(
      'create index on indexed (team, version) where id > 1',
      'create index on indexed (team, id, version)',
    );
    expect(await warnings()).toEqual([warning]);
    await sql('create index on indexed (version)');
    expect(await warnings()).toEqual([]);
  },
);
