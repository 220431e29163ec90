import { expect, test } from 'vitest';
import type { FailpointName } from '../../src/foundation/failpoints/failpoint.ts';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  readRuns,
  retireExports,
  slowDown,
  untilEnded,
} from '../support/exported-events.ts';
import { hourRuns } from '../support/hour-runs.ts';
import { bucket, startInstallation } from '../support/installation.ts';
import { startBundled } from '../support/processes.ts';
import { createKey } from '../support/tenants.ts';
import { until } from '../support/until.ts';
import { useStage } from '../support/use-stage.ts';

/** A deletion waits for all transactions of the server that began before, also those of other test files. */
const patientMs = 150_000;
const installation = useStage(() =>
  startInstallation({ workers: 1, env: { WORKER_SMALL_RUNS: '0' } }),
);

const sluice = (...args: string[]) => sluiceWith({}, ...args);
async function sluiceWith(more: Readonly<Record<string, string>>, ...args: string[]) {
  const env = { ...installation.env, ...more };
  const command = startBundled('clients/cli/sluice.js', args, { env });
  const { code } = await command.waitForExit(patientMs);
  return { code, output: command.output(), lines: command.output().trim().split('\n') };
}

test.each(['Parquet', 'JSONLines', 'CSV'])(
  'the rows of a person are found in %s, removed once they left the source, and no others, whatever else left it',
  async (format) => {
    const { pool, sql, tenant, s3 } = installation;
    const [team] = tenant.projectIds;
    const later = { start: '2024-03-01T03:00:00Z', end: '2024-03-01T04:00:00Z' };
    await insertEvents(pool, { team, rows: 100 });
    await insertEvents(pool, { team, rows: 100, ...later });
    const person = `person ${format} "O'Brien", 50% \\ \t\n é 😀 {}`;
    await sql`update events set distinct_id = ${person} where uuid in (select uuid from events
      where team_id = ${team} and inserted_at < ${hour.end} limit 2)`;
    // An interval with nothing but nulls in the column is searched like all others.
    await sql`update events set distinct_id = null where team_id = ${team}
      and inserted_at >= ${later.start}`;
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

    // The default column is not the one that has the person: the command says which it searched.
    const unnamed = ['erase', 'find', ...asked.slice(0, -2)];
    const elsewhere = await sluice(...unnamed);
    expect(elsewhere.output).toContain(
      '0 rows in the current files of 0 intervals. Searched the column uuid in 4 intervals.',
    );
    expect(elsewhere.output).toContain(
      'That is the key of the model, the default. To find a person, name the column that has the value',
    );
    const inJson = await sluice(...unnamed, '--json');
    expect(inJson.output).toMatch(/^Searched the column uuid in 4 intervals\. That is the key/);
    const future = await sluice('erase', 'find', ...asked, '--after', '2030-01-01T00:00:00Z');
    expect(future.output).toContain('Nothing was searched: this export has no exported interval');

    // An interrupted search continues at the last interval that it printed, not after it.
    const again = await sluice('erase', 'find', ...asked, '--json', '--after', only.start);
    expect(again.lines).toEqual(found.lines);
    const since = ['--after', '2024-03-01T00:00:00.001Z'];
    const nothing = await sluice('erase', 'rewrite', ...asked, ...since);
    expect(nothing.code, nothing.output).toBe(0);
    expect(nothing.lines.at(-1)).toContain(
      'No current file of an interval that starts at 2024-03-01T00:00:00.001000Z or later has the key: nothing to rewrite.',
    );

    const early = await sluice('erase', 'rewrite', ...asked);
    expect(early.code).toBe(1);
    expect(early.output).toContain(
      'The source still has rows with this value in 1 interval, so a later run would export them again. No file was changed. Delete them from the source first',
    );
    expect(early.output).toContain('2024-03-01T01:00:00Z: 2 rows\n');

    // The source keeps nothing of the hour: what was delivered of it is only in the bucket.
    await sql`delete from events where team_id = ${team} and inserted_at < ${hour.end}`;
    const rewritten = await sluice('erase', 'rewrite', ...asked);
    expect(rewritten.output).toContain('Proven: of 1 interval, none has the key');
    expect(rewritten.output).toContain('Rewritten: 2024-03-01T00:00:00Z to 2024-03-01T01:00:00Z');
    expect(rewritten.code).toBe(0);
    const receipt = await sql<{ rows: number; isLater: boolean; purpose: string }>`select
      c.rows::int, c.generation > 1 as "isLater", r.purpose from receipts c join runs r
      on r.id = c.run_id where c.export_id = ${id} and c.data_interval_start = ${hour.start}`;
    expect(receipt.rows).toEqual([{ rows: 98, isLater: true, purpose: 'erase' }]);
    // The value stays nowhere in our tables.
    const { rows: kept } = await pool.query(
      `select from runs r where r.export_id = $1 and (r.erases is not null or r::text like '%O''Brien%')
       union all select from log_entries l where l.export_id = $1 and l.message like '%Brien%'`,
      [id],
    );
    expect(kept).toEqual([]);
    const logs = installation.processes.map((process) => process.output()).join();
    expect(logs).not.toContain("O'Brien");
    const after = (await s3.objects(bucket))
      .map(({ key }) => key)
      .filter((key) => key.startsWith(id));
    // Two files of four intervals have rows; of these only that of the person's rows was replaced.
    expect(only.files.filter((key: string) => after.includes(key))).toEqual([]);
    expect(before.filter((key) => !after.includes(key))).toEqual(only.files);

    const misspelled = await sluice('erase', 'find', ...asked.slice(0, -1), 'distinkt_id');
    expect(misspelled.code).toBe(1);
    expect(misspelled.output).toMatch(/NOT SURE: .*column not found: distinkt_id/);
    await pool.query('delete from events where team_id = $1', [team]);
  },
);

test('workers and the command die within a rewrite: the next waits for its file', async () => {
  const { pool, tenant, s3 } = installation;
  const [team] = tenant.projectIds;
  await insertEvents(pool, { team, rows: 100 });
  const id = await createS3Export(installation);
  await backfill(installation, id);
  await untilEnded(installation, id);
  const filesAt = async () =>
    (await s3.objects(bucket))
      .map(({ key }) => key)
      .filter((key) => key.startsWith(id) && !key.endsWith('_manifest.json'));
  const before = await filesAt();
  expect(before).toHaveLength(1);
  await installation.stopWorkers();
  const first = await installation.startWorker({ FAILPOINTS: 'before_manifest=kill@1' });
  await pool.query(`delete from events where team_id = $1 and distinct_id = 'user 7'`, [team]);
  const asked = ['rewrite', '--export', id, '--key', 'user 7', '--column', 'distinct_id'];
  const killed = startBundled('clients/cli/sluice.js', ['erase', ...asked], {
    env: installation.env,
  });
  await first.waitForExit();
  const second = await installation.startWorker({ FAILPOINTS: 'before_removal=kill@1' });
  await second.waitForExit();
  killed.kill('SIGKILL');
  await killed.waitForExit();

  const hurried = await sluice('erase', ...asked, '--timeout', '1');
  expect(hurried.code).toBe(1);
  expect(hurried.output).toContain('No current file has the key, but');
  expect(hurried.output).toContain(before[0]);
  expect(await filesAt()).toContain(before[0]);
  await installation.startWorker();
  const patient = await sluice('erase', ...asked);
  expect(patient.code, patient.output).toBe(0);
  expect(await filesAt()).not.toContain(before[0]);
  await pool.query('delete from events where team_id = $1', [team]);
});

test('a manifest that waits to be adopted is waited for', async () => {
  const { pool, sql, tenant } = installation;
  const [team] = tenant.projectIds;
  await insertEvents(pool, { team, rows: 100 });
  const id = await createS3Export(installation);
  await installation.stopWorkers();
  const first = await installation.startWorker({
    FAILPOINTS: 'after_manifest=error(destination.unavailable)@1',
    RETRY_BASE_SECONDS: '600',
  });
  await backfill(installation, id);
  await until(() => /"end":"failed"/.test(first.output()));
  await installation.stopWorkers();
  await pool.query(`delete from events where team_id = $1 and distinct_id = 'user 7'`, [team]);
  const [run] = await readRuns(installation, id);
  expect(run).toMatchObject({ status: 'Running', holderPid: null });

  const asked = ['rewrite', '--export', id, '--key', 'user 7', '--column', 'distinct_id'];
  const hurried = await sluice('erase', ...asked, '--timeout', '1');
  expect(hurried.code, hurried.output).toBe(1);
  expect(hurried.output).toContain('1 run had not ended after 1 s, so nothing is proven.');
  expect(hurried.output).toContain(`run ${run?.id}`);

  const patient = startBundled('clients/cli/sluice.js', ['erase', ...asked], {
    env: installation.env,
  });
  await patient.waitForLine(/^0 rows in the current files of 0 intervals/);
  await sql`update outbox set available_at = now(), ready = true where run_id = ${run?.id}`;
  const second = await installation.startWorker({
    FAILPOINTS: 'claim=hold@1',
    LEASE_SECONDS: '60',
  });
  await until(() => second.output().includes('=hold'));
  // Longer than it takes the command to look at its runs again.
  expect((await sluice('erase', ...asked, '--timeout', '1')).code).toBe(1);
  expect(patient.hasExited()).toBe(false);
  second.kill('SIGWINCH');
  expect((await patient.waitForExit()).code, patient.output()).toBe(0);
  expect(patient.output()).toContain('Proven: of 1 interval, none has the key');
  const found = await sluice('erase', 'find', ...asked.slice(1));
  expect(found.output).toContain('0 rows in the current files of 0 intervals.');
  await pool.query('delete from events where team_id = $1', [team]);
});

test('one request erases a person from all exports of an organization, and says the result of each', async () => {
  const { pool, tenant } = installation;
  const [team] = tenant.projectIds;
  // Those of the tests before have other rows.
  await retireExports(installation);
  await insertEvents(pool, { team, rows: 20 });
  const person = 'in all exports';
  const ofPerson = `uuid in (select uuid from events where team_id = $2 and inserted_at < $3 limit 2)`;
  await pool.query(`update events set distinct_id = $1 where ${ofPerson}`, [
    person,
    team,
    hour.end,
  ]);
  const first = await createS3Export(installation, { name: 'First' });
  const second = await createS3Export(installation, { name: 'Second' });
  // Its files do not have the column.
  const without = 'select uuid, inserted_at from events';
  const third = await createS3Export(installation, { name: 'Third', dsl_query: without });
  for (const id of [first, second, third]) {
    await backfill(installation, id);
    await untilEnded(installation, id);
  }
  const asked = ['--key', person, '--column', 'distinct_id'];
  const ofAll = ['--organization', tenant.organizationId, ...asked];

  const found = await sluice('erase', 'find', ...ofAll, '--json');
  expect(found.code, found.output).toBe(1);
  const lines = found.lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
  expect(lines.filter(({ rows }) => rows > 0)).toMatchObject([
    { export: first, rows: 2 },
    { export: second, rows: 2 },
  ]);
  expect(lines.filter((line) => 'error' in line)).toMatchObject([
    { export: first, name: 'First', error: null },
    { export: second, name: 'Second', error: null },
    { export: third, error: expect.stringContaining('could not be searched') },
  ]);

  // A failure of one does not stop the others.
  await pool.query('delete from events where distinct_id = $1', [person]);
  const rewritten = await sluice('erase', 'rewrite', ...ofAll);
  expect(rewritten.code, rewritten.output).toBe(1);
  expect(rewritten.output.match(/Proven: of 1 interval, none has the key/g)).toHaveLength(2);
  expect(rewritten.output).toContain('1 of 3 exports failed');
  const { client } = installation;
  await client.delete(`/api/projects/${team}/batch_exports/${third}`);
  // What is done is not done twice.
  const again = await sluice('erase', 'rewrite', ...ofAll);
  expect(again.code, again.output).toBe(0);
  expect(again.output.match(/nothing to rewrite/g)).toHaveLength(2);

  for (const wrong of [[], [...ofAll.slice(0, 2), '--export', first]]) {
    const refused = await sluice('erase', 'find', ...wrong, ...asked);
    expect([refused.code, refused.output]).toEqual([2, expect.stringContaining('Name either')]);
  }
  const unknown = await sluice('erase', 'find', '--organization', 'unknown', ...asked);
  expect([unknown.code, unknown.output]).toEqual([1, expect.stringContaining('no organization')]);
  await pool.query('delete from events where team_id = $1', [team]);
});

/** Exports of organizations that were deleted; their files stay. */
const foreign: string[] = [];

test.each<FailpointName>(['before_manifest', 'upload_begun', 'first_part', 'before_complete'])(
  'a worker that froze at %s of a run writes nothing for a deleted organization when it wakes up',
  async (step) => {
    const { pool, client, s3, db } = installation;
    const tenant = await installation.addTenant();
    const own = { ...installation, tenant, client: client.withKey(tenant.key) };
    const [team] = tenant.projectIds;
    await insertEvents(pool, { team, rows: 2_000, rowBytes: 4_000 });
    const exportId = await createS3Export(own);
    await installation.stopWorkers();
    const { breakAt, wake } = hourRuns(() => own);
    const sleeper = await breakAt(exportId, step, 'stop', { knows: true });
    // Its other intervals wait.
    await backfill(own, exportId, { start: hour.end, end: '2024-03-02T00:00:00Z' });

    const { key } = await createKey(db, { organizationId: null });
    const admin = client.withKey(key);
    const body = { organization_id: tenant.organizationId, confirm_name: 'Acme' };
    const both = await Promise.all([1, 2].map(() => admin.post('/admin/offboardings', body)));
    expect(both.map(({ status }) => status)).toEqual([202, 202]);
    expect(new Set(both.map((answer) => answer.body.id)).size).toBe(1);
    expect((await own.client.get(`/api/projects/${team}/batch_exports`)).status).toBe(401);
    await installation.startWorker();
    const path = `/admin/offboardings/${both[0]?.body.id}`;
    const record = await until(
      async () => {
        const answer = await admin.get(path);
        return answer.body.status === 'completed' ? answer.body : null;
      },
      { message: 'the organization is deleted' },
    );
    expect(record.remaining_files).not.toContainEqual(expect.objectContaining({ open_uploads: 1 }));
    foreign.push(exportId);
    const stem = `${exportId}/20240301T000000Z-`;
    const keysAt = async () =>
      (await s3.objects(bucket)).map(({ key: at }) => at).filter((at) => at.startsWith(stem));
    const before = await keysAt();
    await wake(sleeper);
    expect(await keysAt()).toEqual(before);
    // Its file was there before it froze.
    const files = step === 'before_manifest' ? ['20240301T010000Z.jsonl'] : [];
    // If its lease expired before the deletion came to its export, another attempt may have completed.
    const ofAnother = ['20240301T010000Z.v2.jsonl', '20240301T010000Z_manifest.json'];
    const possible = [files, [...files, ...ofAnother]];
    expect(possible.map((ends) => ends.map((end) => `${stem}${end}`))).toContainEqual(before);
    expect((await s3.uploads(bucket)).filter(({ key: at }) => at.startsWith(exportId))).toEqual([]);
    for (const table of ['runs', 'receipts', 'log_entries', 'backfills', 'ticks']) {
      const { rowCount } = await pool.query(`select from ${table} where export_id = $1`, [
        exportId,
      ]);
      expect(rowCount, table).toBe(0);
    }
    await pool.query('delete from events where team_id = $1', [team]);
  },
);

test('a deleted organization loses its runs in progress, its uploads, keys and rows; its files stay', async () => {
  const { pool, tenant, client, s3, db } = installation;
  const { organizationId, projectIds } = tenant;
  const operator = await installation.addTenant();
  const { key } = await createKey(db, { organizationId: null });
  const admin = client.withKey(key);
  await insertEvents(pool, { team: projectIds[0], rows: 100 });
  const done = await createS3Export(installation);
  await backfill(installation, done);
  await untilEnded(installation, done);
  const files = (await s3.objects(bucket)).map(({ key: at }) => at).sort();

  await slowDown(installation, 'UploadPart', 2_500);
  await insertEvents(pool, { team: projectIds[0], rows: 20_000, rowBytes: 2_000 });
  const busy = await createS3Export(installation);
  await backfill(installation, busy);
  await until(async () => (await s3.uploads(bucket)).length > 0);

  const body = { organization_id: organizationId, confirm_name: 'Acme' };
  expect((await client.post('/admin/offboardings', body)).status).toBe(403);
  const wrong = { ...body, confirm_name: 'x' };
  expect((await admin.post('/admin/offboardings', wrong)).status).toBe(400);
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
  const [remaining] = record.remaining_files as readonly Record<string, number>[];
  expect(remaining).toMatchObject({
    address: `s3://${bucket}/{batch_export_id}/`,
    ...{ leftover_files: 0, open_uploads: 0 },
  });
  expect(Number(remaining?.files) + Number(remaining?.manifests)).toBe(
    files.filter((at) => !foreign.some((id) => at.startsWith(id))).length,
  );
  const emptied = ['runs', 'receipts', 'log_entries', 'upload_places', 'outbox'];
  for (const table of emptied) {
    expect((await pool.query(`select from ${table}`)).rowCount, table).toBe(0);
  }
  const other = operator.projectIds[1];
  const project = ['projects', 'delete', `${other}`, '--organization', operator.organizationId];
  const env = { SLUICE_URL: client.baseUrl, SLUICE_KEY: key };
  const refused = await sluiceWith(env, ...project, '--confirm', 'Website');
  expect(refused.code).toBe(1);
  expect(refused.output).toContain('This is not the name of the project.');
  const deleted = await sluiceWith(env, ...project, '--confirm', 'App', '--json');
  expect(deleted.code, deleted.output).toBe(0);
  const { id } = JSON.parse(deleted.lines.at(-1) ?? '');
  await until(
    async () => (await admin.get(`/admin/offboardings/${id}`)).body.status === 'completed',
    { timeoutMs: patientMs, message: 'the project is deleted' },
  );
  const shown = await sluiceWith(env, 'offboardings', 'show', begun.body.id);
  expect(shown.output).toMatch(/^status +completed$/m);
});
