/** What an operator does over HTTP: organizations, projects, keys. */

import { beforeAll, describe, expect, test } from 'vitest';
import { disabled as disabledReasons } from '../../../src/foundation/domain/batch-export.ts';
import type { ApiClient } from '../../support/api-client.ts';
import { useApi } from '../../support/api-under-test.ts';
import { atNight } from '../../support/nightly.ts';
import { storeExport } from '../../support/store-export.ts';
import { exportOfThePast } from '../../support/run-side.ts';
import { readExportHealth } from '../../../src/state/store/exports/export-health.ts';

let operator: ApiClient;
let reader: ApiClient;

const api = useApi();
beforeAll(async () => {
  operator = await api.asOperator();
  reader = await api.asOperator(['operator:read']);
});

describe("an operator's key", () => {
  test('creates an organization, its project and its key, which works', async () => {
    const organization = await operator.post('/api/admin/organizations', { name: 'New & Co' });
    expect(organization.status).toBe(201);
    const at = `/api/admin/organizations/${organization.body.id}`;
    const project = await operator.post(`${at}/projects`, { name: 'Web', tenant_key: 'cust-7' });
    expect(project.body).toMatchObject({ name: 'Web', tenant_key: 'cust-7', disabled_at: null });
    const taken = await operator.post(`${at}/projects`, { name: 'Other', tenant_key: 'cust-7' });
    expect([taken.status, taken.body.attr]).toEqual([409, 'tenant_key']);
    const key = await operator.post(`${at}/keys`, {
      name: 'their key',
      scopes: ['batch_export:write'],
      project_ids: [project.body.id],
    });
    expect(key.status).toBe(201);
    const theirs = api.withKey(String(key.body.key));
    expect((await theirs.get(`/api/projects/${project.body.id}/batch_exports`)).status).toBe(200);
    const listed = await reader.get(`${at}/keys`);
    expect(listed.body.results).toMatchObject([{ id: key.body.id, name: 'their key' }]);
    expect(JSON.stringify(listed.body)).not.toContain(String(key.body.key));
    const rotated = await operator.post(`/api/admin/keys/${key.body.id}/rotate`, {
      overlap_seconds: 0,
    });
    expect([rotated.status, (await theirs.get('/api/me')).status]).toEqual([201, 401]);
    await operator.post(`/api/admin/keys/${rotated.body.id}/revoke`);
    const found = await reader.get('/api/admin/organizations?search=new%20%26');
    expect(found.body).toMatchObject({ count: 1, results: [{ id: organization.body.id }] });
    const acts = await api.sql.values`
      select action from activity where organization_id = ${organization.body.id} and key_id is not null
        order by id`;
    expect(acts.join()).toBe('created,created,created,rotated,created,revoked');
    expect(await api.sql`select from activity where key_id is null`).toEqual([]);
  });

  test('repeats a request with the same Idempotency-Key without doing it again', async () => {
    const headers = { 'idempotency-key': 'once' };
    const create = () => operator.post('/api/admin/organizations', { name: 'Once' }, { headers });
    const [first, second] = [await create(), await create()];
    expect([first.status, second.body.id]).toEqual([201, first.body.id]);
    expect((await reader.get('/api/admin/organizations?search=Once')).body.count).toBe(1);
  });
});

test('a disabled organization: its keys are refused, its exports pause, and what was paused stays paused', async () => {
  const side = { db: api.db, teamId: api.teamId };
  const running = await storeExport(api.db, await exportOfThePast(side));
  const paused = await storeExport(api.db, await exportOfThePast(side, { paused: true }));
  const at = `/api/admin/organizations/${api.tenant.organizationId}`;
  const stateOf = async (id: string | undefined) =>
    (await api.sql`select paused, paused_reason as reason from batch_exports where id = ${id}`)[0];
  const disabled = await operator.patch(at, { disabled: true });
  expect(disabled.body.disabled_at).toEqual(expect.any(String));
  expect((await api.get(api.exports)).status).toBe(403);
  expect(await stateOf(running?.id)).toEqual({
    paused: true,
    reason: disabledReasons.organization.text,
  });
  const project = `/api/admin/projects/${api.teamId}`;
  expect((await operator.patch(project, { disabled: false })).status).toBe(409);
  expect((await operator.patch(at, { disabled: false })).body.disabled_at).toBeNull();
  expect((await api.get(api.exports)).status).toBe(200);
  expect(await stateOf(running?.id)).toEqual({ paused: false, reason: null });
  expect(await stateOf(paused?.id)).toEqual({ paused: true, reason: null });
  await operator.patch(project, { disabled: true });
  expect((await api.get(api.exports)).status).toBe(403);
  await operator.patch(project, { disabled: false });
  expect(await stateOf(running?.id)).toEqual({ paused: false, reason: null });
});

describe('causes', () => {
  let buckets: readonly string[] = [];
  beforeAll(async () => {
    const side = { db: api.db, teamId: api.teamId };
    const made: string[] = [];
    for (const bucket of ['dead', 'dead', 'dead', 'other']) {
      const config = { bucket_name: bucket, region: 'eu-west-1' };
      const destination = { type: 'S3', config, secrets: null };
      const stored = await storeExport(api.db, await exportOfThePast(side, { destination }));
      if (!stored) throw new Error('the project is full');
      made.push(stored.id);
    }
    buckets = made;
    await api.sql`
      update batch_exports set failing_since = now() - interval '1 hour', failing_code = 'destination.bucket_not_found',
              failing_error = 'destination.bucket_not_found: no bucket' where id = any (${made}::uuid[])`;
    await api.sql`
      insert into holes select id, date_trunc('hour', now(), 'UTC') - n * interval '1 hour', date_trunc('hour', now(),
        'UTC') - (n - 1) * interval '1 hour'
         from batch_exports, generate_series(2, 4) n where id = any (${made}::uuid[])`;
  });

  test('are the rows: exports of one dead bucket are one, with whose turn it is and what is missing', async () => {
    const { body } = await reader.get('/api/admin/causes?turn=customer');
    expect(body.results).toMatchObject([
      {
        turn: 'customer',
        code: 'destination.bucket_not_found',
        place: 'S3 dead',
        organization_id: api.tenant.organizationId,
        organizations: 1,
        exports: 3,
        missing_intervals: 9,
        latest_error: 'destination.bucket_not_found: no bucket',
        remedy: expect.stringContaining('bucket_name'),
      },
      { place: 'S3 other', exports: 1 },
    ]);
    expect((await reader.get('/api/admin/causes?search=no-such-customer')).body.count).toBe(0);
    expect((await reader.get('/api/admin/causes?search=acme&turn=customer')).body.count).toBe(2);
    expect((await reader.get('/api/admin/causes?turn=ours')).body.count).toBe(0);
    const cause = body.results[0]?.id;
    const exports = await reader.get(`/api/admin/exports?cause_id=${cause}`);
    expect(exports.body.count).toBe(3);
    expect(exports.body.results[0]).toMatchObject({ health: 'failing', turn: 'customer' });
    const all = await reader.get('/api/admin/exports?limit=1000');
    expect(all.body.results.some((one: { code: unknown }) => one.code === null)).toBe(true);
  });

  test('an interval whose run is live is not without data, wherever it is counted', async () => {
    const [id] = buckets;
    const target = await operator.post('/api/admin/notification_targets', {
      url: 'https://example.com/hooks',
    });
    expect(target.status, target.text).toBe(201);
    const readCounts = async () => {
      const [causes, exports, own, health] = await Promise.all([
        reader.get('/api/admin/causes?turn=customer'),
        reader.get('/api/admin/exports?limit=1000'),
        api.get(`${api.exports}/${id}`),
        readExportHealth(api.db),
      ]);
      await api.sql`select notify_targets(${id}, 'export.failing', '{}')`;
      const message = await api.sql.value`
        select (facts->>'missing_intervals')::int from notification_deliveries order by seq desc limit 1`;
      return {
        causes: causes.body.results[0]?.missing_intervals,
        exports: exports.body.results.find((one) => one.id === id)?.missing_intervals,
        own: Object(own.body.missing).count,
        metric: health.missingIntervals.reduce((sum, { count }) => sum + count, 0),
        message,
      };
    };
    expect(await readCounts()).toEqual({ causes: 9, exports: 3, own: 3, metric: 12, message: 3 });
    await api.sql`insert into runs (export_id, team_id, status, data_interval_start, data_interval_end)
       select h.export_id, e.team_id, 'Running', h.data_interval_start, h.data_interval_end
         from holes h join batch_exports e on e.id = h.export_id where h.export_id = ${id} order by 4 limit 1`;
    expect(await readCounts()).toEqual({
      ...{ causes: 8, exports: 2, own: 2, metric: 11, message: 2 },
    });
    await api.sql`delete from runs where export_id = ${id}`;
    await operator.delete(`/api/admin/notification_targets/${target.body.id}`);
  });

  test('a retry exports what has no data, and a pause pauses', async () => {
    for (const id of buckets.slice(0, 3)) {
      const at = `/api/admin/exports/${id}/act`;
      expect((await reader.post(at, { action: 'retry' })).status).toBe(403);
      expect((await operator.post(at, { action: 'retry' })).body.passed_over).toBeNull();
    }
    const running = api.sql`
      select from backfills where status = 'Running' and reprocess = 'missing' and total_runs = 3`;
    expect(await running).toHaveLength(3);
    for (const id of buckets.slice(0, 3)) {
      const paused = await operator.post(`/api/admin/exports/${id}/act`, { action: 'pause' });
      expect([paused.status, paused.body]).toEqual([200, { backfill_ids: [], passed_over: null }]);
    }
    const paused = api.sql.values`
      select paused from batch_exports where id = any (${buckets.slice(0, 3)}::uuid[])`;
    expect(await paused).toEqual([true, true, true]);
    // What a person has paused counts for no turn.
    expect((await reader.get('/api/admin/causes?turn=customer')).body.count).toBe(1);
  });

  test('that heal have the age of the first failure and the time of the next attempt', async () => {
    const [first, second, third] = buckets;
    await api.db.query(
      `with healing as (update holes set heals_since = now() where export_id = any ($1::uuid[]))
       update batch_exports set paused = false, failing_code = 'source.unavailable', failing_error = 'source.unavailable: refused',
              failing_since = now() - interval '3 hours', heal_failures = 9, heal_after = now() + interval '9 minutes' where id = any ($1::uuid[])`,
      [[first, second]],
    );
    await api.sql`update batch_exports set paused = false where id = ${third}`;
    const { body } = await reader.get('/api/admin/causes?turn=source');
    const [found] = body.results;
    expect(body.results).toMatchObject([
      {
        code: 'source.unavailable',
        place: 'events',
        exports: 2,
        missing_intervals: 6,
        latest_error: 'source.unavailable: refused',
        next: `Sluice tries it again at ${String(found?.next_probe_at).replace(/\.\d+Z$/, 'Z')}. Once it works, what lacks data runs by itself.`,
      },
    ]);
    const minutesTo = (at: unknown) => (Date.parse(String(at)) - Date.now()) / 60_000;
    expect(minutesTo(found?.next_probe_at)).toBeGreaterThan(5);
    expect(Math.round(minutesTo(found?.since) / 60)).toBe(-3);
    const held = await reader.get(`/api/admin/exports?cause_id=${found?.id}`);
    expect(held.body.results).toMatchObject([
      { code: 'source.unavailable', next_probe_at: found?.next_probe_at },
      { code: 'source.unavailable' },
    ]);
  });

  atNight('5,000 exports and 500 causes cost a small multiple of the smallest list', async () => {
    const [copied] = buckets.slice(3);
    await api.sql`
      insert into batch_exports (team_id, name, destination_type, destination_config, "interval", schedule, next_tick_at,
              failing_since, failing_code, failing_error)
       select team_id, 'Many ' || n, 'S3', jsonb_build_object('bucket_name', 'b' || n % 500), "interval", schedule,
         now() + interval '1 day',
              now(), 'destination.access_denied', 'destination.access_denied: no'
         from batch_exports, generate_series(1, 5000) n where id = ${copied}`;
    await api.sql`insert into holes (export_id, data_interval_start, data_interval_end, heals_since)
       select id, date_trunc('hour', now(), 'UTC') - n * interval '1 hour', date_trunc('hour', now(),
         'UTC') - (n - 1) * interval '1 hour', now()
         from batch_exports, generate_series(1, 3) n where name like 'Many %'`;
    await api.sql`analyze batch_exports, holes, export_checks`;
    const took = async (path: string) => {
      const start = performance.now();
      expect((await reader.get(path)).status).toBe(200);
      return performance.now() - start;
    };
    expect((await reader.get('/api/admin/causes')).body.count).toBeGreaterThan(500);
    for (const path of ['causes', 'causes?search=acme', 'exports?turn=customer']) {
      let [least, best] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
      // In turn, so that both meet the same machine. A list of three organizations costs what every request costs.
      for (let n = 0; n < 20; n += 1) {
        least = Math.min(least, await took('/api/admin/organizations'));
        best = Math.min(best, await took(`/api/admin/${path}`));
      }
      // 20 to 60 on machines of two cores, quiet and busy.
      expect(best / least, path).toBeLessThan(120);
    }
  });
});

/** No filter of an operator's lists selects everything because a script's variable is empty. */
interface Operation {
  readonly parameters?: readonly { readonly in: string; readonly name: string }[];
}

test('an empty filter of the admin API is refused by its name', async () => {
  const document = await operator.get('/api/openapi.json');
  const paths = Object.entries(document.body.paths as Record<string, { get?: Operation }>);
  const filters = paths
    .filter(([path]) => path.startsWith('/api/admin'))
    .flatMap(([path, { get }]) =>
      (get?.parameters ?? [])
        .filter((parameter) => parameter.in === 'query')
        .map(({ name }) => ({ path: path.replace(/\{\w+\}/g, api.tenant.organizationId), name })),
    );
  expect(filters.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['search', 'turn', 'health', 'cause_id']),
  );
  const target = await operator.post('/api/admin/notification_targets', {
    url: 'https://example.com/hook',
  });
  for (const { path, name } of filters) {
    const at = path.replace(
      `notification_targets/${api.tenant.organizationId}`,
      `notification_targets/${target.body.id}`,
    );
    for (const empty of ['', '%20']) {
      const { status, body } = await operator.get(`${at}?${name}=${empty}`);
      expect({ at, status, attr: body.attr }).toEqual({ at, status: 400, attr: name });
    }
  }
});
