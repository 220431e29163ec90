/** Projects are known to the source by their tenant keys, of any type. */

import { beforeAll, expect, test } from 'vitest';
import { tenantIdentityOf } from '../../../src/foundation/domain/tenant-key.ts';
import { checkModel, createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import { listVerifiedExports } from '../../../src/state/store/intervals/verify-queries.ts';
import { createProject } from '../../../src/service/use-cases/tenants/change-tenants.ts';
import { openRunSide } from '../../support/run-side.ts';
import { readAll, hourRequest } from '../../support/source-tables.ts';
import { useStage } from '../../support/use-stage.ts';
import { atNight } from '../../support/nightly.ts';
import { plainModel } from '../../support/plain-model.ts';

const never = new AbortController().signal;
const customers = {
  uuid: ['6f1d2c3b-0000-4000-8000-00000000000a', '6f1d2c3b-0000-4000-8000-00000000000b'],
  text: [`O'Neil \\ "Söhne"`, '007'],
  bigint: ['9007199254740993', '-5'],
} as const;

const modelOf = (name: string) => plainModel(name, { id: 'bigint' }, { tenantColumn: 'customer' });
const types = Object.keys(customers) as (keyof typeof customers)[];
const models = types.map((type) => modelOf(`rows_${type}`));

const side = useStage(openRunSide);
beforeAll(async () => {
  for (const type of types) {
    await side.db.query(
      `create table rows_${type} (id bigint primary key, customer ${type} not null, at timestamptz not null)`,
    );
    for (const [n, customer] of customers[type].entries()) {
      await side.db.query(
        `insert into rows_${type} select $1::int + i, $2, '2024-03-01T00:00:00Z' from generate_series(1, $1::int / 10 + 1) i`,
        [n * 10, customer],
      );
    }
  }
});

test.each(types)('a project whose tenant key is %s reads its own rows only', async (type) => {
  const source = createPostgresSource({ connectionString: side.url, plan: planModels(models) });
  for (const [n, tenantKey] of customers[type].entries()) {
    const start = Date.parse('2024-03-01T00:00:00Z');
    const interval = { start, end: start + 1 };
    const request = hourRequest({ model: `rows_${type}`, tenantKey, interval });
    const snapshot = await source.open(request, never);
    const blocks = await readAll(snapshot, never).finally(() => snapshot.close());
    expect(blocks.reduce((sum, block) => sum + block.rowCount, 0)).toBe(n + 1);
  }
});

test('runs, look-backs and verify read by the tenant key, and without one by the id', async () => {
  const { organizationId } = side.tenant;
  const tenantKey = customers.uuid[0];
  const { id: teamId } = await createProject(side.db, { organizationId, name: 'Own', tenantKey });
  const own = await side.createExport({ teamId });
  const other = await side.createExport();
  await side.decide();
  expect((await side.claim((await side.firstRun(own.id)).id)).tenantKey).toBe(tenantKey);
  expect((await side.claim((await side.firstRun(other.id)).id)).tenantKey).toBe(
    String(side.teamId),
  );
  const [verified] = await listVerifiedExports(side.db, own.id);
  expect(verified?.tenantKey).toBe(tenantKey);
});

test('no two projects have keys that a tenant column takes for the same value', async () => {
  const { organizationId } = side.tenant;
  const create = (tenantKey: string) =>
    createProject(side.db, { organizationId, name: 'One', tenantKey });
  await create('4711');
  const uuid = customers.uuid[1];
  await create(uuid);
  for (const same of ['04711', '+4711', '0x1267', '4_711', uuid.toUpperCase(), `{${uuid}}`]) {
    await expect(create(same)).rejects.toMatchObject({
      problems: [{ code: 'conflict', attr: 'tenant_key' }],
    });
  }
  // The ids of projects are keys too.
  await expect(create(String(side.teamId))).rejects.toThrow('Another project has this tenant_key');
  for (const refused of ['', ' x', 'x ', 'a\nb', 'x'.repeat(201)]) {
    await expect(create(refused)).rejects.toMatchObject({ problems: [{ attr: 'tenant_key' }] });
  }
  expect([tenantIdentityOf('-007'), tenantIdentityOf('0x_'), tenantIdentityOf('Acme')]).toEqual([
    '-7',
    '0x_',
    'Acme',
  ]);
});

test('a new project does not take the key of another one by its id', async () => {
  const { organizationId } = side.tenant;
  const next = await side.sql<{ id: number }>`select max(id) + 1 as id from projects`;
  await side.sql`select setval(pg_get_serial_sequence('projects', 'id'), ${next[0]?.id}, false)`;
  // It takes an id, and the next project would have the id after it.
  const taken = String(Number(next[0]?.id) + 1);
  await createProject(side.db, { organizationId, name: 'First', tenantKey: taken });
  await expect(createProject(side.db, { organizationId, name: 'Next' })).rejects.toThrow(
    'Another project has the id of the new project as its tenant_key',
  );
});

atNight('models check says which type the column wants, and who has another one', async () => {
  const check = async (name: string, keys: readonly string[]) =>
    (await checkModel(side.url, modelOf(name), keys)).findings.map(
      ({ severity, detail }) => `${severity}: ${detail}`,
    );
  const wanted =
    /customer is uuid, so the tenant_key of a project must be a UUID. These are not: "7"/;
  expect(await check('rows_uuid', [customers.uuid[0], '7'])).toContainEqual(
    expect.stringMatching(new RegExp(`warning: ${wanted.source}`)),
  );
  expect(await check('rows_uuid', ['7'])).toContainEqual(
    expect.stringMatching(new RegExp(`error: ${wanted.source}`)),
  );
  expect((await check('rows_bigint', ['9223372036854775808'])).join()).toContain('a whole number');
  expect((await check('rows_text', ['7', 'Acme'])).join()).not.toContain('tenant_key');
  await side.sql`create table rows_real (id bigint, customer float8 not null, at timestamptz)`;
  expect((await check('rows_real', ['7'])).join()).toContain('must be text, uuid or an integer');
});
