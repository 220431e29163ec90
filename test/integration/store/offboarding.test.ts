import type { ClaimedRun } from '../../../src/state/store/runs/claims.ts';
import { beforeAll, describe, expect, it } from 'vitest';
import { renewLeases } from '../../../src/state/store/runs/leases.ts';
import { appendLogEntries } from '../../../src/state/store/exports/log-entries.ts';
import {
  findOffboarding,
  listRemainingFiles,
  lockOffboarding,
  type Offboarding,
} from '../../../src/state/store/tenants/offboardings.ts';
import { findTeamsToLookAt } from '../../../src/state/store/files/upload-places.ts';
import {
  advanceOffboardings,
  type OffboardingPorts,
  offboardTenant,
} from '../../../src/service/use-cases/tenants/offboard.ts';
import { type FullTenant, fillTenant } from '../../support/full-tenant.ts';
import { emptyCommit, exportOfThePast, useRunSide } from '../../support/run-side.ts';
import { beginCommit } from '../../support/run-verbs.ts';
import { storeExport } from '../../support/store-export.ts';
import { createKey } from '../../support/tenants.ts';

const side = useRunSide();

/** Tables whose rows belong to the installation. A new table belongs here or to `fillTenant`. */
const tablesWithoutTenants = [
  ...['eras', 'installation', 'offboardings', 'signing_keys', 'sluice_migrations', 'workers'],
];

const impatient = { uploadsMs: 0, settleMs: 0 };

const ports = (changes: Partial<OffboardingPorts> = {}): OffboardingPorts => ({
  describePlace: (_type, { bucket_name, prefix = '' }) => ({
    place: `aws ${bucket_name}`,
    address: `s3://${bucket_name}/${prefix}`,
  }),
  onCompleted: () => {},
  onError: (error) => {
    throw error;
  },
  isOver: () => false,
  ...changes,
});

const advance = (changes: Partial<OffboardingPorts> = {}, limits = impatient) =>
  advanceOffboardings(side.db, ports(changes), limits);

/** The workers of the tenant's runs fall silent. */
async function silence({ runIds }: FullTenant): Promise<void> {
  for (const runId of runIds) await side.expireLease(runId);
}

async function finishFor(tenant: FullTenant): Promise<void> {
  await silence(tenant);
  await advance();
}

async function expectGone(id: string): Promise<void> {
  expect(await stateOf(id)).toMatchObject({ status: 'completed', lastError: null });
  expect(await readAll()).toEqual(others);
}

/** A run of the tenant that is claimed. */
async function claimed({ projectIds }: FullTenant): Promise<ClaimedRun> {
  const { id } = await side.createExport({ teamId: projectIds[1] });
  await side.decide();
  return side.claim((await side.firstRun(id)).id);
}

const offboard = (organizationId: string, teamId: number | null = null) =>
  offboardTenant(
    side.db,
    { organizationId, teamId, confirmName: teamId === null ? 'Acme' : 'Website' },
    null,
  );

const stateOf = async (id: string): Promise<Offboarding> => {
  const found = await findOffboarding(side.db, id);
  if (!found) throw new Error('there is no such offboarding');
  return found;
};

/** All rows of all tables, in order, but for those of offboardings. */
async function readAll(): Promise<Map<string, readonly string[]>> {
  const all = new Map<string, readonly string[]>();
  for (const table of tablesWithTenants) {
    const rows = await side.db.query<{ row: string }>(`select t::text as row from ${table} t`);
    all.set(table, rows.map(({ row }) => row).sort());
  }
  return all;
}

/** Every other table of the schema. */
let tablesWithTenants: readonly string[] = [];
let others: Map<string, readonly string[]>;
beforeAll(async () => {
  tablesWithTenants = await side.sql.values<string>`select c.relname from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
        and c.relname <> all (${tablesWithoutTenants}) order by 1`;
  await fillTenant(side, 'of the other');
  others = await readAll();
});

describe('a deleted organization', () => {
  it.each([
    ['in one go', async () => await advance()],
    [
      'by processes that die after each step',
      async (id: string) => {
        for (let died = 0; (await stateOf(id)).completedAt === null; died += 1) {
          let left = 1;
          await advance({ isOver: () => left-- <= 0 });
          expect(died).toBeLessThan(20);
        }
      },
    ],
    [
      'by several processes at once',
      async () => {
        await Promise.all(Array.from({ length: 3 }, () => advance()));
        await advance();
      },
    ],
  ])('goes with every row, and no other row, %s', async (_how, finish) => {
    const tenant = await fillTenant(side, 'its own');
    const before = await readAll();
    for (const [table, rows] of before) {
      expect([table, rows.length > (others.get(table)?.length ?? 0)]).toEqual([table, true]);
    }
    const { id } = await offboard(tenant.organizationId);
    await silence(tenant);
    await finish(id);
    await expectGone(id);
    expect(await stateOf(id)).toMatchObject({ name: 'Acme' });
    expect(await listRemainingFiles(side.db, id, 10)).toEqual([
      {
        ...{ destinationType: 'S3', place: 'aws customers-bucket' },
        address: 's3://customers-bucket/events/{year}/',
        ...{ exports: 1, files: 2, manifests: 1, rows: 3, bytes: 30 },
        ...{ leftoverFiles: 1, openUploads: 1 },
      },
    ]);
  });

  it('has keys that are refused at once, and makes no more runs', async () => {
    const tenant = await fillTenant(side, 'its own');
    await offboard(tenant.organizationId);
    const isRevoked = side.sql.value`
      select revoked_at <= now() from api_keys where id = ${tenant.keyId}`;
    expect(await isRevoked).toBe(true);
    await finishFor(tenant);
    expect(await side.decide()).toBe(0);
  });
});

describe('runs in progress', () => {
  it('are cancelled first and cannot commit afterwards', async () => {
    const tenant = await fillTenant(side, 'its own');
    const run = await claimed(tenant);
    await offboard(tenant.organizationId);
    await finishFor(tenant);
    expect(await beginCommit(side.db, run, 60_000, {}, emptyCommit)).toBe(false);
    expect([...(await renewLeases(side.db, [run], 60_000))]).toEqual([]);
    const { teamId, runId, exportId } = run;
    await appendLogEntries(side.db, [{ teamId, exportId, runId, level: 'INFO', message: 'late' }]);
    expect(await readAll()).toEqual(others);
  });

  it('that commit are waited for, until their worker falls silent', async () => {
    const tenant = await fillTenant(side, 'its own');
    const run = await claimed(tenant);
    expect(await beginCommit(side.db, run, 60_000, {}, emptyCommit)).toBe(true);
    await silence(tenant);
    const { id } = await offboard(tenant.organizationId);
    await advance();
    expect(await stateOf(id)).toMatchObject({
      status: 'cancelling',
      lastError: 'Waits for runs that commit their files.',
    });
    await side.expireLease(run.runId);
    await advance();
    expect([...(await renewLeases(side.db, [run], 60_000))]).toEqual([]);
    await expectGone(id);
  });

  it('have uploads that the sweep aborts before their rows go', async () => {
    const tenant = await fillTenant(side, 'its own');
    await silence(tenant);
    const { id } = await offboard(tenant.organizationId);
    await advance({}, { ...impatient, uploadsMs: 3_600_000 });
    expect(await stateOf(id)).toMatchObject({
      status: 'cancelling',
      lastError: 'Waits until uploads at the destinations are aborted.',
    });
    // Also of a worker that died, or froze, while it committed.
    expect(await findTeamsToLookAt(side.db, 100)).toContain(tenant.projectIds[0]);
    await side.sql`
      delete from upload_places where export_id in (select id from batch_exports
        where team_id = any (${tenant.projectIds}))`;
    await advance({}, { ...impatient, uploadsMs: 3_600_000 });
    expect((await stateOf(id)).status).toBe('completed');
  });
});

it('an export of a request that began before the tenant was closed goes too', async () => {
  const tenant = await fillTenant(side, 'its own');
  const { organizationId, projectIds } = tenant;
  await silence(tenant);
  const late = await exportOfThePast({ db: side.db, teamId: projectIds[1] }, {});
  const { id } = await offboard(organizationId);
  let isAdded = false;
  await advance({
    describePlace: () => {
      isAdded = true;
      return null;
    },
    isOver: () => isAdded,
  });
  await storeExport(side.db, late);
  await advance();
  await expectGone(id);
});

it('a deleted project leaves the other projects, their keys and the organization', async () => {
  const tenant = await fillTenant(side, 'its own');
  const { organizationId, projectIds } = tenant;
  const [first, second] = projectIds;
  const both = await createKey(side.db, { organizationId, projectIds: [first, second] });
  const own = await createKey(side.db, { organizationId, projectIds: [first] });
  const { id: kept } = await side.createExport({ teamId: second });
  const { id } = await offboard(organizationId, first);
  await silence(tenant);
  await advance();
  expect((await stateOf(id)).status).toBe('completed');
  const keys = await side.sql`
    select id, project_ids from api_keys where organization_id = ${organizationId} and revoked_at is null
      order by created_at`;
  expect(keys).toEqual([
    { id: tenant.keyId, project_ids: null },
    { id: both.apiKey.id, project_ids: [second] },
  ]);
  expect(await side.sql`select from api_keys where id = ${own.apiKey.id}`).toEqual([]);
  expect(await side.sql`select id from batch_exports where team_id = any (${projectIds})`).toEqual([
    { id: kept },
  ]);
  await offboard(organizationId);
  await advance();
  expect(await readAll()).toEqual(others);
});

it('a project and its organization, deleted at the same time, both have what stays', async () => {
  const tenant = await fillTenant(side, 'its own');
  const { organizationId, projectIds } = tenant;
  const ofProject = await offboard(organizationId, projectIds[0]);
  const ids = [ofProject.id, (await offboard(organizationId)).id];
  await silence(tenant);
  await advance();
  await advance();
  const filesOf = async (id: string) =>
    (await listRemainingFiles(side.db, id, 10)).map(({ files }) => files);
  expect(await Promise.all(ids.map(filesOf))).toEqual([[2], [2]]);
  for (const id of ids) expect((await stateOf(id)).status).toBe('completed');
  expect(await readAll()).toEqual(others);
});

it('an offboarding is worked on by one process at a time', async () => {
  const tenant = await fillTenant(side, 'its own');
  const { id } = await offboard(tenant.organizationId);
  await side.db.transaction(async (tx) => {
    expect((await lockOffboarding(tx, id))?.id).toBe(id);
    await finishFor(tenant);
    expect(await stateOf(id)).toMatchObject({ status: 'cancelling' });
  });
  await finishFor(tenant);
  expect((await stateOf(id)).status).toBe('completed');
});

it('fifty exports go in a transaction, and one that fails leaves all of its rows and says why', async () => {
  const tenant = await fillTenant(side, 'its own');
  const { organizationId, projectIds } = tenant;
  for (const _ of Array(50)) await side.createExport({ teamId: projectIds[1] });
  await side.sql`delete from former_destinations where export_id = ${tenant.exportId}`;
  const { id } = await offboard(organizationId);
  await silence(tenant);
  let described = 0;
  const errors: unknown[] = [];
  await advance({
    describePlace: () => {
      described += 1;
      if (described > 50) throw new Error('no such place');
      return null;
    },
    onError: (error) => errors.push(error),
  });
  expect(errors).toEqual([new Error('no such place')]);
  expect(await stateOf(id)).toMatchObject({
    status: 'deleting',
    lastError: 'Error: no such place',
  });
  const left = 'select from batch_exports where team_id = any ($1)';
  expect(await side.db.query(left, [projectIds])).toHaveLength(1);
  await advance();
  await expectGone(id);
});
