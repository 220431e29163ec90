import { describe, expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { acceptIntervals } from '../../../src/state/store/intervals/coverage.ts';
import { keepResponse } from '../../../src/state/store/tenants/idempotency.ts';
import { findGaps, findTornTicks } from '../../../src/state/store/intervals/verify-queries.ts';
import { applyRetention } from '../../../src/service/use-cases/installation/apply-retention.ts';
import { noteUploads } from '../../../src/state/store/files/upload-places.ts';
import { hourMs, useRunSide } from '../../support/run-side.ts';
import { createTenant } from '../../support/tenants.ts';

const side = useRunSide({ logRetentionDays: 30, retentionDays: 365 });

/** Makes everything of an export look as old as that. */
async function age(exportId: string, days: number): Promise<void> {
  const statements = [
    `update runs set finished_at = finished_at - $2 * interval '1 day' where export_id = $1 and finished_at is not null`,
    `update ticks set decided_at = decided_at - $2 * interval '1 day' where export_id = $1`,
    `update log_entries set timestamp = timestamp - $2 * interval '1 day' where export_id = $1`,
    `update batch_exports set deleted_at = deleted_at - $2 * interval '1 day' where id = $1`,
  ];
  for (const statement of statements) await side.db.query(statement, [exportId, days]);
}

const count = (table: string, exportId: string) =>
  side.db
    .query(`select from ${table} where export_id = $1`, [exportId])
    .then(({ length }) => length);

/** Three intervals: one completed twice over, one failed, one still to run. */
async function exportWithHistory(): Promise<string> {
  const { id } = await side.exportWithRuns(3);
  const [first, second] = await side.listRuns(id);
  await side.completeRuns(first?.id);
  await side.completeRuns(await side.retry({ exportId: id, runId: first?.id }));
  await side.failAttempt(second?.id ?? '', new SluiceError('query.invalid'));
  return id;
}

describe('retention', () => {
  it('deletes ended runs, but neither those of current receipts nor live ones, nor what shows a hole, nor ticks the mark still needs', async () => {
    const id = await exportWithHistory();
    await age(id, 400);
    await applyRetention(side.context);
    const runs = await side.listRuns(id);
    expect(runs.map((run) => run.status)).toEqual(['Completed', 'Failed', 'Starting']);
    const receipts = await side.sql`select run_id from receipts where export_id = ${id}`;
    expect(receipts).toEqual([{ run_id: runs[0]?.id }]);
    // The first tick is covered by the mark; the two after it are not.
    expect([await count('ticks', id), await count('log_entries', id)]).toEqual([2, 0]);
    const [live] = runs.slice(-1);
    await side.completeRuns(live?.id);
  });

  it('leaves ticks that share their bounds, and no gap, whatever a pause and a failure left', async () => {
    const { id } = await side.exportWithRuns(8);
    for (const [index, run] of (await side.listRuns(id)).entries()) {
      if (index === 4) await side.failAttempt(run.id, new SluiceError('query.invalid'));
      else await side.completeRuns(run.id);
    }
    // The second and the sixth came during a pause, and were exported by a backfill since.
    await side.sql`update ticks t set fate = 'paused' where export_id = ${id} and (select count(*) from ticks o
         where o.export_id = ${id} and o.tick_at < t.tick_at) in (1, 5)`;
    await age(id, 400);
    await applyRetention(side.context);
    expect([await count('ticks', id), await findTornTicks(side.db, id, 1_000)]).toEqual([4, []]);
    expect(await findGaps(side.db, id)).toEqual([]);
    // The check still sees a gap among the intervals whose ticks are gone.
    await side.sql`delete from receipts where export_id = ${id} and data_interval_start = (
         select data_interval_start from receipts where export_id = ${id} order by 1 offset 2 limit 1)`;
    expect(await findGaps(side.db, id)).toHaveLength(1);
  });

  it('keeps a former destination while files may remain there', async () => {
    const { id } = await side.createExport({ createdMsAgo: hourMs });
    await side.sql`insert into former_destinations (export_id, version, destination_config, replaced_at)
       select ${id}, v, '{}', now() - interval '2 days' from unnest(array[0, 1]) v`;
    await side.sql`
      insert into leftover_files (export_id, data_interval_start, data_interval_end, destination_version, key,
        generation, uncommitted)
       values (${id}, now() - interval '2 hours', now() - interval '1 hour', 1, 'left', 1, true)`;
    await applyRetention(side.context);
    expect(await count('former_destinations', id)).toBe(1);
    await side.sql`delete from leftover_files where export_id = ${id}`;
    await applyRetention(side.context);
    expect(await count('former_destinations', id)).toBe(0);
  });

  it('keeps only the newest run of a hole, and none once the interval is accepted', async () => {
    const { id, schedule } = await side.createExport({ createdMsAgo: hourMs });
    await side.decide();
    const error = new SluiceError('query.invalid');
    const [first] = await side.listRuns(id);
    await side.failAttempt(first?.id ?? '', error);
    const newest = await side.retry({ exportId: id, runId: first?.id });
    await side.failAttempt(newest, error);
    await age(id, 400);
    await applyRetention(side.context);
    expect((await side.listRuns(id)).map((kept) => kept.id)).toEqual([newest]);
    expect(await count('holes', id)).toBe(1);
    const start = schedule.openIntervalStart;
    await acceptIntervals(side.db, id, [{ start, end: start + hourMs }]);
    await applyRetention(side.context);
    expect(await count('runs', id)).toBe(0);
  });

  it('keeps the ticks of an export that has completed nothing: the mark is counted from the first', async () => {
    const { id } = await side.exportWithRuns(3);
    await age(id, 400);
    await applyRetention(side.context);
    expect(await count('ticks', id)).toBe(3);
    const runs = await side.listRuns(id);
    await side.completeRuns(...runs.map((run) => run.id));
    const mark = await side.sql.value`select high_water_mark from batch_exports where id = ${id}`;
    expect(mark).toBe(runs.at(-1)?.end);
  });

  it('forgets a deleted export with all that was its own after its time, not before', async () => {
    const id = await exportWithHistory();
    const [live] = (await side.listRuns(id)).slice(-1);
    const run = await side.claim(live?.id);
    await noteUploads(side.db, run, 60_000);
    await side.sql`update batch_exports set deleted_at = now() where id = ${id}`;
    await side.sql`
      update runs set status = 'Cancelled', finished_at = now() where export_id = ${id}
        and finished_at is null`;
    await age(id, 364);
    await applyRetention(side.context);
    const exists = async () =>
      (await side.sql`select 1 from batch_exports where id = ${id}`).length === 1;
    expect(await exists()).toBe(true);
    await age(id, 2);
    await applyRetention(side.context);
    expect(await exists()).toBe(false);
    for (const table of ['runs', 'ticks', 'receipts', 'log_entries', 'backfills', 'outbox']) {
      expect([table, await count(table, id)]).toEqual([table, 0]);
    }
  });
});

describe("sources of an organization's own plugins", () => {
  it('go once no plugin has had them for long, unless a run or a receipt names them', async () => {
    const { db, tenant } = side;
    const sources = ['of a run', 'of a receipt', 'of nothing', 'of another plugin', 'new'];
    const [plugin] = await side.sql<{ id: number }>`
      insert into plugins (name, source, organization_id)
        values ('Mine', 'first', ${tenant.organizationId}), ('Other', 'of another plugin', ${tenant.organizationId})
       returning id`;
    for (const source of sources) {
      await side.sql`update plugins set source = ${source} where id = ${plugin?.id}`;
    }
    const kept = () => side.sql.values<string>`select source from plugin_sources`;
    const { id } = await side.exportWithRuns(3);
    const [first, second] = await side.listRuns(id);
    await side.completeRuns(first?.id);
    const chain = `jsonb_build_array(jsonb_build_object('config', 1, 'version', 1, 'source', (select sha256 from plugin_sources where source = $2)))`;
    await db.query(`update runs set chain = ${chain} where id = $1`, [second?.id, 'of a run']);
    await db.query(
      `update receipts set recipe = jsonb_build_object('chain', ${chain}) where export_id = $1`,
      [id, 'of a receipt'],
    );
    await applyRetention(side.context);
    expect(await kept()).toHaveLength(sources.length + 1);
    await side.sql`update plugin_sources set replaced_at = replaced_at - interval '366 days'`;
    await applyRetention(side.context);
    expect((await kept()).sort()).toEqual(
      ['of a run', 'of a receipt', 'of another plugin', 'new'].sort(),
    );
  });
});

it('versions of transformation configs go once no config has had them for long, unless a run or a receipt names them', async () => {
  const { db, tenant } = side;
  const team = tenant.projectIds[0];
  const names = ['of a run', 'of a receipt', 'of nothing', 'of the config', 'new'];
  for (const [index, name] of names.entries()) {
    await side.sql`
        insert into transformation_versions (config_id, version, team_id, plugin, name, config, config_secrets)
         values (1000, ${index + 1}, ${team}, 1, ${name}, '{}', null)`;
  }
  await side.sql`insert into pipeline_transformation_configs (id, team_id, plugin, version, enabled, "order", config)
       overriding system value values (1000, ${team}, 1, 4, true, 1, '{}')`;
  const { id } = await side.exportWithRuns(3);
  const [first, second] = await side.listRuns(id);
  await side.completeRuns(first?.id);
  const chain = `jsonb_build_array(jsonb_build_object('config', 1000, 'version', $2::int))`;
  await db.query(`update runs set chain = ${chain} where id = $1`, [second?.id, 1]);
  await db.query(
    `update receipts set recipe = jsonb_build_object('chain', ${chain}) where export_id = $1`,
    [id, 2],
  );
  const kept = () =>
    side.sql.values<string>`select name from transformation_versions where config_id = 1000`;
  await applyRetention(side.context);
  expect(await kept()).toHaveLength(names.length);
  await side.sql`update transformation_versions set created_at = created_at - interval '366 days'
        where config_id = 1000 and name <> 'new'`;
  await applyRetention(side.context);
  // A claim that began before the config changed may still pin it.
  expect(await kept()).toHaveLength(names.length);
  await side.sql`
      update transformation_versions set unused_since = unused_since - interval '61 minutes'`;
  await applyRetention(side.context);
  expect((await kept()).sort()).toEqual(
    ['of a run', 'of a receipt', 'of the config', 'new'].sort(),
  );
});

it('idempotency keys are forgotten after 24 hours, and not before', async () => {
  const { keyId } = await createTenant(side.db);
  for (const [idempotencyKey, hours] of [
    ['young', 23],
    ['spent', 25],
  ] as const) {
    const request = { keyId, idempotencyKey, fingerprint: Buffer.alloc(32) };
    await keepResponse(side.db, request, { status: 201, response: '{}' });
    await side.sql`update idempotency_keys set created_at = now() - ${hours} * interval '1 hour'
          where key_id = ${keyId} and idempotency_key = ${idempotencyKey}`;
  }
  await applyRetention(side.context);
  const left = await side.sql`
      select idempotency_key as name from idempotency_keys where key_id = ${keyId}`;
  expect(left).toEqual([{ name: 'young' }]);
});
