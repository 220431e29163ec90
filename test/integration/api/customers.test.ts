import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { readConfig } from '../../../src/foundation/config/config.ts';
import { findTenantsOf } from '../../../src/main/api-process.ts';
import { loadModels } from '../../../src/main/models.ts';
import { ensureEventsTable } from '../../../src/rows/sources/index.ts';
import type { ApiClient } from '../../support/api-client.ts';
import { type ApiUnderTest, startApiBeside, useApi } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';
import { allowBriefReceipts } from '../../support/brief-receipts.ts';
import { shopModelsAt } from '../../support/stranger-shop.ts';
import { atNight } from '../../support/nightly.ts';
import { createKey, createTenant } from '../../support/tenants.ts';

let operator: ApiClient;
let organization: string;
let shop: Awaited<ReturnType<ApiUnderTest['shop']['open']>>;

const api = useApi();
beforeAll(async () => {
  shop = await api.shop.open();
  await ensureEventsTable(api.databaseUrl);
  await allowBriefReceipts(api.db);
  operator = await api.asOperator();
  organization = `/api/admin/organizations/${api.tenant.organizationId}`;
});

test('names change, in the list and in the record of changes', async () => {
  const named = await operator.patch(organization, { name: 'Acme & Co' });
  expect([named.status, named.body.name]).toEqual([200, 'Acme & Co']);
  const project = `/api/admin/projects/${api.teamId}`;
  const both = await operator.patch(project, { name: 'Shop', disabled: true });
  expect(both.body).toMatchObject({ name: 'Shop', disabled_at: expect.any(String) });
  expect((await operator.patch(project, { disabled: false })).body.disabled_at).toBeNull();
  const listed = (await operator.get('/api/admin/organizations?search=%26 co')).body;
  expect(listed.results.map(({ name }) => name)).toEqual(['Acme & Co']);
  const recorded = await api.sql<{ subject: string; changes: unknown }>`
      select subject_type as subject, changes from activity where action = 'renamed' order by id`;
  expect(recorded).toEqual([
    { subject: 'organization', changes: [{ field: 'name', before: 'Acme', after: 'Acme & Co' }] },
    { subject: 'project', changes: [{ field: 'name', before: 'Website', after: 'Shop' }] },
  ]);
});

describe('rows and bytes of a month', () => {
  const usage = async (query: string) => (await operator.get(`/api/admin/usage?${query}`)).body;

  test('are those of the intervals that begin in it, in UTC, of all exports of the customer', async () => {
    for (const [at, project] of api.tenant.projectIds.entries()) {
      const path = `/api/projects/${project}/batch_exports`;
      const { id } = (await api.post(path, exportBody())).body;
      await api.sql`with made as (
           insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at)
           select ${id}, ${project}, 'Completed', t, t + interval '1 hour', now()
             from unnest(array['2024-01-31T23:00:00Z', '2024-02-01T00:00:00Z', '2024-02-29T23:00:00Z',
               '2024-03-01T00:00:00Z']::timestamptz[]) t
           returning id, data_interval_start, data_interval_end)
         insert into receipts (export_id, data_interval_start, data_interval_end, run_id, files, rows, bytes, settled)
         select ${id}, data_interval_start, data_interval_end, id, '[]', ${3_000_000_000 + at}, 10, true from made`;
      // Its files are still there.
      if (at === 1) await api.delete(`${path}/${id}`);
    }
    const own = `search=${api.tenant.organizationId}`;
    const { results, count } = await usage(`${own}&month=2024-02`);
    expect(count).toBe(1);
    expect(results).toEqual([
      {
        ...{ month: '2024-02', id: api.tenant.organizationId, name: expect.any(String) },
        ...{ disabled_at: null, projects: 2, exports: 1, rows: 12_000_000_002, bytes: 40 },
      },
    ]);
    expect((await usage(`${own}&month=2024-03`)).results[0]).toMatchObject({ bytes: 20 });
    expect((await usage(own)).results[0]).toMatchObject({ rows: 0, bytes: 0 });
  });

  test('are a file too, for operator and customer, equal to the sums of the receipts', async () => {
    const read = async (client: ApiClient, path: string) => {
      const answer = await client.get(`${path}?month=2024-02&format=csv`);
      expect(answer.headers.get('content-type')).toBe('text/csv; charset=utf-8');
      expect(answer.text.endsWith('\r\n')).toBe(true);
      return answer.text
        .trimEnd()
        .split('\r\n')
        .map((line) => line.split(','));
    };
    const sums = await api.sql<{ id: string; sums: string[] }>`
      select export_id as id, array[count(*)::text, sum(rows)::text, sum(bytes)::text] as sums from receipts
        where data_interval_start >= '2024-02-01Z' and data_interval_start < '2024-03-01Z' group by 1
          order by export_id::text`;
    expect(sums).toHaveLength(2);
    const path = `/api/organizations/${api.tenant.organizationId}/usage`;
    const [heads, ...lines] = await read(api.client, path);
    expect(heads?.join()).toBe('month,project_id,id,name,deleted_at,intervals,rows,bytes');
    const delivered = lines.filter((line) => line.at(-1) !== '0');
    expect(delivered.map((line) => [line[2], ...line.slice(-3)].join()).toSorted()).toEqual(
      sums.map((one) => [one.id, ...one.sums].join()),
    );
    const [project] = api.tenant.projectIds;
    const ofProject = await read(api.client, `/api/projects/${project}/usage`);
    expect(ofProject.slice(1)).toEqual(lines.filter((line) => line[1] === String(project)));
    const paged = (await api.get(`${path}?month=2024-02&limit=1&offset=1`)).body;
    expect([paged.count, paged.results]).toEqual([
      lines.length,
      [expect.objectContaining({ id: lines[1]?.[2], month: '2024-02' })],
    ]);
    const [, ...all] = await read(operator, '/api/admin/usage');
    const own = all.find((line) => line[1] === api.tenant.organizationId);
    const total = (at: number) => String(sums.reduce((sum, one) => sum + Number(one.sums[at]), 0));
    expect(own?.slice(-2)).toEqual([total(1), total(2)]);
    // A spreadsheet must not compute what a customer typed.
    const name = '=1+1,"a"';
    await api.post(`/api/projects/${project}/batch_exports`, { ...exportBody(), name });
    const answer = await api.get(`${path}?month=2024-02&format=csv`);
    expect(answer.text).toContain(`,"'=1+1,""a""",,0,0,0\r\n`);
    const foreign = await createTenant(api.db);
    const stranger = api.withKey(foreign.key);
    const theirs = `/api/organizations/${foreign.organizationId}/usage`;
    expect(await read(stranger, theirs)).toHaveLength(1);
    expect((await stranger.get(path)).status).toBeGreaterThanOrEqual(403);
    expect((await api.get(`${path}?format=xml`)).body.attr).toBe('format');
  });

  test('are refused for what is no month, and to the key of a customer', async () => {
    for (const month of ['2024-13', '2024', '2024-1', '24-01', '0000-01', '2024-01-01', "'"]) {
      const { status, body } = await operator.get(`/api/admin/usage?month=${month}`);
      expect([month, status, body.attr]).toEqual([month, 400, 'month']);
    }
    expect((await api.get('/api/admin/usage')).status).toBe(403);
  });
});

describe('the tenant key of a new project', () => {
  /** An API over some models, with the operator's key. */
  async function startOver(chooses: (name: string) => boolean, url = api.shop.url) {
    const config = readConfig({});
    const models = [...loadModels(config), ...shopModelsAt(url)].filter(({ model }) =>
      chooses(model.name),
    );
    const findTenants = findTenantsOf(models, api.databaseUrl);
    const beside = await startApiBeside(api, () => ({ findTenants }));
    const client = beside.client.withKey((await createKey(api.db, { organizationId: null })).key);
    const create = (tenantKey?: string) =>
      client.post(`${organization}/projects`, { name: 'New', tenant_key: tenantKey });
    onTestFinished(() => beside.stop());
    return create;
  }

  test('is refused if no model can have it, with the models and their types', async () => {
    const create = await startOver((name) => ['events', 'line_items'].includes(name));
    const { status, body } = await create('acme');
    expect([status, body.attr, body.code]).toEqual([400, 'tenant_key', 'invalid_input']);
    expect(body.detail).toContain('team_id of events is integer');
    expect(body.detail).toContain('accountId of line_items is uuid');
    expect((await create('99999999999')).status).toBe(400);
    // One model can.
    expect([(await create(randomUUID())).status, (await create()).status]).toEqual([201, 201]);
  });

  test('is refused if it is left out, and no model can have the id of a project', async () => {
    const create = await startOver((name) => name === 'line_items');
    const { status, body } = await create();
    expect([status, body.attr]).toEqual([400, 'tenant_key']);
    expect(body.detail).toContain('the id of the project is taken');
  });

  test('is taken with a warning if no row has it, and without one if a row has it', async () => {
    await shop.query(
      `insert into "Shop"."Orders" ("Account", "orderTotal", state) values ('O''Brien', 1, 'new')`,
    );
    const create = await startOver((name) => name === 'orders');
    const silent = await create('nobody');
    expect(silent.status).toBe(201);
    expect(silent.body.warnings).toEqual([
      expect.stringContaining('No row has this tenant_key yet (Account of orders)'),
    ]);
    expect((await create("O'Brien")).body.warnings).toEqual([]);
  });

  atNight('is taken with a warning if a model does not answer', async () => {
    const create = await startOver(
      (name) => ['events', 'orders'].includes(name),
      'postgres://nobody@127.0.0.1:1/none',
    );
    const made = await create('unknown');
    expect(made.status).toBe(201);
    expect(made.body.warnings).toEqual([expect.stringContaining('1 of 2 models did not answer')]);
  });
});
