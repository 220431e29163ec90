import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  untilEnded,
} from '../support/exported-events.ts';
import { bucket, type Installation, startInstallation } from '../support/installation.ts';
import { casesOf } from '../support/nightly.ts';
import { startBundled } from '../support/processes.ts';
import { createKey } from '../support/tenants.ts';
import { until } from '../support/until.ts';

/** A deletion waits for all transactions of the server that began before, also those of other test files. */
const patientMs = 150_000;

let installation: Installation;
beforeAll(async () => {
  installation = await startInstallation({ workers: 1 });
});
afterAll(() => installation?.close());

async function sluice(...args: string[]) {
  const command = startBundled('cli/sluice.js', args, { env: installation.env });
  const { code } = await command.waitForExit(patientMs);
  return { code, output: command.output(), lines: command.output().trim().split('\n') };
}

test.each(casesOf(['Parquet'], ['JSONLines', 'CSV']))(
  'the rows of a person are found in %s, rewritten once they left the source, and proven to be gone',
  async (format) => {
    const { pool, tenant, s3 } = installation;
    const [team] = tenant.projectIds;
    const later = { start: '2024-03-01T03:00:00Z', end: '2024-03-01T04:00:00Z' };
    await insertEvents(pool, { team, rows: 100 });
    await insertEvents(pool, { team, rows: 100, ...later });
    const person = `person ${format}`;
    await pool.query(
      `update events set distinct_id = $1 where uuid in (select uuid from events where team_id = $2 and inserted_at < $3 limit 2)`,
      [person, team, hour.end],
    );
    const id = await createS3Export(installation, { config: { file_format: format } });
    await backfill(installation, id, { start: hour.start, end: later.end });
    await untilEnded(installation, id, { count: 4 });
    const before = (await s3.objects(bucket))
      .map(({ key }) => key)
      .filter((key) => key.startsWith(id));
    const asked = ['--export', id, '--key', person, '--column', 'distinct_id'];

    const found = await sluice('erase', 'find', ...asked, '--json');
    expect(found.code, found.output).toBe(0);
    const [only, ...others] = found.lines.map((line) => JSON.parse(line));
    expect(others).toEqual([]);
    expect(only).toMatchObject({ start: '2024-03-01T00:00:00.000000Z', rows: 2, doubt: null });

    const early = await sluice('erase', 'rewrite', ...asked);
    expect(early.code).toBe(1);
    expect(early.output).toContain(
      '1 intervals still have the key. Remove its rows from the source',
    );

    await pool.query('delete from events where distinct_id = $1', [person]);
    const rewritten = await sluice('erase', 'rewrite', ...asked);
    expect(rewritten.output).toContain('Proven: none of the 1 intervals has the key');
    expect(rewritten.code).toBe(0);
    const after = (await s3.objects(bucket))
      .map(({ key }) => key)
      .filter((key) => key.startsWith(id));
    // Two files of four intervals have rows; of these only that of the person's rows was replaced.
    expect(only.files.filter((key: string) => after.includes(key))).toEqual([]);
    expect(before.filter((key) => !after.includes(key))).toEqual(only.files);

    const misspelled = await sluice('erase', 'find', ...asked.slice(0, -1), 'distinkt_id');
    expect(misspelled.code).toBe(1);
    expect(misspelled.output).toMatch(
      /NOT SURE: (no row has a value in the column|.*column not found:) distinkt_id/,
    );
    await pool.query('delete from events where team_id = $1', [team]);
  },
);

test('rows that a run has read before they left the source are erased, too', async () => {
  const { pool, tenant, s3 } = installation;
  const [team] = tenant.projectIds;
  await insertEvents(pool, { team, rows: 100 });
  await pool.query(
    `update events set distinct_id = 'a person' where uuid = (select uuid from events where team_id = $1 limit 1)`,
    [team],
  );
  const id = await createS3Export(installation);
  const match = { operation: 'CompleteMultipartUpload', key: new RegExp(`^${id}`) } as const;
  await s3.faults.add({ match, effect: { delayMs: 6_000 } });
  await backfill(installation, id);
  await until(async () => {
    const begun = `select from runs where export_id = $1 and committing_at is not null`;
    return (await pool.query(begun, [id])).rowCount === 1;
  });
  await pool.query(`delete from events where distinct_id = 'a person'`);
  const asked = ['--export', id, '--key', 'a person', '--column', 'distinct_id'];
  const rewritten = await sluice('erase', 'rewrite', ...asked);
  expect(rewritten.output).toContain('Waiting for 1 runs that began before.');
  expect(rewritten.output).toContain('Proven: none of the 1 intervals has the key');
  expect(rewritten.code).toBe(0);
  await pool.query('delete from events where team_id = $1', [team]);
});

/** Jobs of the queue about runs, those that have ended too. */
async function jobsOf(runs: readonly string[]): Promise<number> {
  const { rows } = await installation.pool.query<{ count: number }>(
    `select count(*)::int from bullmq.job where data ->> 'runId' = any ($1)`,
    [runs],
  );
  return rows[0]?.count ?? -1;
}

test('a deleted organization loses its runs under way, its uploads, keys and rows; its files stay', async () => {
  const { pool, tenant, client, s3, db } = installation;
  const { organizationId, projectIds } = tenant;
  const operator = await installation.addTenant();
  const { key } = await createKey(db, { organizationId: operator.organizationId, isAdmin: true });
  const admin = client.withKey(key);
  await insertEvents(pool, { team: projectIds[0], rows: 100 });
  const done = await createS3Export(installation);
  await backfill(installation, done);
  const runs = (await untilEnded(installation, done)).map(({ id }) => id);
  // A run that was parked has had a job more.
  expect(await jobsOf(runs)).toBeGreaterThan(0);
  const files = (await s3.objects(bucket)).map(({ key: at }) => at).sort();

  await s3.faults.add({
    match: { operation: 'UploadPart' },
    times: 1_000,
    effect: { delayMs: 2_500 },
  });
  await insertEvents(pool, { team: projectIds[0], rows: 20_000, rowBytes: 2_000 });
  const busy = await createS3Export(installation);
  await backfill(installation, busy);
  await until(async () => (await s3.uploads(bucket)).length > 0, { timeoutMs: 30_000 });

  const body = { organization_id: organizationId, confirm_name: 'Acme' };
  expect((await client.post('/admin/offboardings', body)).status).toBe(403);
  expect((await admin.post('/admin/offboardings', { ...body, confirm_name: 'x' })).status).toBe(
    400,
  );
  const own = { ...body, organization_id: operator.organizationId };
  expect((await admin.post('/admin/offboardings', own)).status).toBe(409);
  const begun = await admin.post('/admin/offboardings', body);
  expect(begun.status).toBe(202);
  expect((await client.get(`/api/projects/${projectIds[0]}/batch_exports`)).status).toBe(401);
  const path = `/admin/offboardings/${begun.body.id}`;
  await until(async () => (await admin.get(path)).body.status === 'completed', {
    timeoutMs: patientMs,
    message: 'the organization is deleted',
  });

  expect(await s3.uploads(bucket)).toEqual([]);
  expect((await s3.objects(bucket)).map(({ key: at }) => at).sort()).toEqual(files);
  const { body: record } = await admin.get(path);
  expect(record.deleted_rows).toMatchObject({ organizations: 1, projects: 2 });
  const [remaining] = record.remaining_files as readonly Record<string, number>[];
  expect(remaining).toMatchObject({
    address: `s3://${bucket}/{batch_export_id}/`,
    leftover_files: 0,
    open_uploads: 0,
  });
  expect(Number(remaining?.files) + Number(remaining?.manifests)).toBe(files.length);
  for (const table of ['runs', 'receipts', 'log_entries', 'log_counts', 'uploads', 'outbox']) {
    expect((await pool.query(`select from ${table}`)).rowCount, table).toBe(0);
  }
  expect(await jobsOf(runs)).toBe(0);

  const other = operator.projectIds[1];
  const project = ['projects', 'delete', `${other}`, '--organization', operator.organizationId];
  const refused = await sluice(...project, '--confirm', 'Website');
  expect(refused.code).toBe(1);
  expect(refused.output).toContain('This is not the name of the project.');
  const deleted = await sluice(...project, '--confirm', 'App', '--json');
  expect(deleted.code, deleted.output).toBe(0);
  const { id } = JSON.parse(deleted.lines.at(-1) ?? '');
  await until(
    async () => (await admin.get(`/admin/offboardings/${id}`)).body.status === 'completed',
    { timeoutMs: patientMs, message: 'the project is deleted' },
  );
  const shown = await sluice('offboardings', 'show', begun.body.id);
  expect(shown.output).toMatch(/^status +completed$/m);
});
