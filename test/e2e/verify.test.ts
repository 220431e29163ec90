import { createServer } from 'node:http';
import { afterEach, describe, expect, test } from 'vitest';
import type { VerifyReport } from '../../src/service/verify/verify-exports.ts';
import { runCli } from '../support/cli.ts';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  projectPath,
  untilEnded,
} from '../support/exported-events.ts';
import { listen } from '../support/free-port.ts';
import { atNight } from '../support/nightly.ts';
import { bucket, startInstallation } from '../support/installation.ts';
import { createTenant } from '../support/tenants.ts';
import { until } from '../support/until.ts';
import { useStage } from '../support/use-stage.ts';
import { openVerifySide } from '../support/verify-side.ts';

const installation = useStage(() => {
  // Exports that are created later have their first turn tomorrow.
  const VERIFY_SCHEDULE = new Date().toISOString().slice(11, 16);
  const env = { VERIFY_SCHEDULE };
  return startInstallation({ workers: 1, checksNamedKeys: false, env });
});
const side = useStage(async () => openVerifySide(installation));
afterEach(() => side.clean());

/** `own-models` runs the command as a process. */
async function verifyAlone(...args: string[]) {
  const { code, output } = await runCli(['verify', ...args], { env: installation.env });
  return { code, lines: output.split('\n') };
}

test('verify goes on after a breach and after a bucket that it cannot read: a line and a remedy for each export', async () => {
  const { pool, sql, tenant } = installation;
  await insertEvents(pool, { team: tenant.projectIds[0], rows: 100 });
  const ids: string[] = [];
  for (const name of ['broken', 'unread', 'sound']) {
    const id = await createS3Export(installation, { name });
    await backfill(installation, id, hour);
    await untilEnded(installation, id);
    ids.push(id);
  }
  const [broken, unread, sound] = ids;
  const empty = await createS3Export(installation, { name: 'empty' });
  const fresh = await verifyAlone();
  expect(fresh.code).toBe(0);
  expect(fresh.lines).toContain(`nothing yet  empty (${empty}): no interval has been exported`);
  expect(fresh.lines.join('\n')).toContain('verified 4 exports (3 proven, 1 nothing yet): ');
  const quiet = await verifyAlone('--problems');
  expect([quiet.code, quiet.lines.join()]).toEqual([0, expect.not.stringContaining('empty')]);
  await pool.query('update batch_exports set deleted_at = now() where id = $1', [empty]);

  await pool.query('update runs set records_completed = 99 where export_id = $1', [broken]);
  await sql`update batch_exports set destination_config = destination_config
    || '{"bucket_name": "gone"}' where id = ${unread}`;
  const { code, lines } = await verifyAlone();
  expect(code).toBe(1);
  const lineOf = (id: string | undefined) => lines.filter((line) => line.includes(`(${id})`));
  expect(lineOf(broken)).toEqual([
    `BROKEN    broken (${broken}): 1 breach. Report this with the id of the run; the files are not affected.`,
  ]);
  expect(lineOf(unread)).toEqual([
    expect.stringMatching(
      /^NOT READ {2}unread .*destination\.bucket_not_found: .*correct bucket_name/,
    ),
  ]);
  expect(lineOf(sound)).toEqual([expect.stringMatching(/^proven {4}sound .*1 file, 100 rows/)]);
  expect(lines).toContain('2 of 3 exports not proven');
  expect(lines.join('\n')).toContain('its counts do not agree');

  // The worker does the same by its schedule.
  const results = () =>
    installation.db.query<{ id: string; result: string }>(
      'select export_id as id, result from export_checks',
    );
  expect(await results()).toEqual([]);
  await pool.query(`update batch_exports set created_at = created_at - interval '1 day'`);
  await until(async () => (await results()).length === 3);
  expect(new Map((await results()).map(({ id, result }) => [id, result]))).toEqual(
    new Map([
      [broken, 'broken'],
      [unread, 'unread'],
      [sound, 'proven'],
    ]),
  );
  const last = await verifyAlone('--last');
  expect(last.code).toBe(1);
  expect(last.lines.slice(0, 4).map((line) => line.replace(/, 20.*?Z: /, ': '))).toEqual(
    expect.arrayContaining([lineOf(broken)[0], lineOf(sound)[0]]),
  );
  expect(last.lines.join('\n')).toContain('its counts do not agree');
  expect(last.lines).toContain('verified 3 exports (1 proven, 1 not read, 1 broken)');
  // Named exports alone, and with --problems those that are proven are counted and not printed.
  const one = await verifyAlone('--last', '--problems', '--export', sound ?? '');
  expect([one.code, one.lines[0]]).toEqual([0, 'verified 1 export (1 proven)']);
  const none = await verifyAlone('--last', '--organization', 'Elsewhere');
  expect([none.code, none.lines[0]]).toEqual([
    1,
    'VERIFY_SCHEDULE has verified no export of Elsewhere. Check the id or the name.',
  ]);
  const json = await verifyAlone('--json');
  expect(json.code).toBe(1);
  const document = (lines: readonly string[]) => lines.find((line) => line.startsWith('{')) ?? '';
  const report = JSON.parse(document(json.lines)) as VerifyReport;
  // How many were asked for, and how many of them were read.
  expect(report).toMatchObject({ exports: 3, read: 2, unread: 1 });
  const problems = JSON.parse(document((await verifyAlone('--json', '--problems')).lines));
  expect(problems).toMatchObject({
    ...{ exports: 3, read: 2, unread: 1 },
    results: [
      { id: broken, result: 'broken' },
      { id: unread, result: 'unread' },
    ],
  });
  expect(report.findings.map(({ exportId }) => exportId)).toEqual([broken]);
  expect(report.results.map(({ id, failure }) => [id, failure !== null])).toEqual([
    [broken, false],
    [unread, true],
    [sound, false],
  ]);
});

describe('an operator', () => {
  atNight(
    'sees each result when it is known, and a bucket that never answers costs only its own line',
    async () => {
      const silent = createServer(() => {});
      const port = await listen(silent);
      await createS3Export(installation, {
        name: 'silent',
        config: { endpoint_url: `http://127.0.0.1:${port}` },
      });
      const id = await side.exportHour({ name: 'sound' });
      let shown = '';
      const stop = new AbortController();
      const verifying = runCli(['verify'], {
        env: installation.env,
        signal: stop.signal,
        onOutput: (text) => {
          shown += text;
        },
      });
      await until(() => shown.includes(`proven    sound (${id})`), { message: () => shown });
      expect(shown).not.toContain('silent');
      silent.closeAllConnections();
      silent.close();
      expect((await verifying).out).toMatch(/NOT READ {2}silent/);
    },
    90_000,
  );

  test('sees what others wrote escaped, on one line', async () => {
    const name = 'a\u001b[2J\nproven    victim\u009b2J\u202ename';
    const id = await side.exportHour({ name, config: { prefix: 'odd' } });
    await side.put(`odd/\u001b[2J\n/20240301T000000Z-20240301T010000Z.v9.jsonl`);
    const { lines, out } = await side.verify();
    expect(lines[0]).toMatch(
      /^BROKEN {4}a\\u001b\[2J\\u000aproven {4}victim\\u009b2J\\u202ename \(/,
    );
    expect(lines).toHaveLength(3);
    expect(out.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\u202e]/u);
    const json = await side.verify(['--json', '--export', id]);
    expect(json.out.trimEnd()).not.toMatch(/[\p{Cc}\u202e]/u);
    expect(JSON.parse(json.out).results[0].name).toBe(name);
    const byId = await runCli(['erase', 'find', '--export', id, '--key', 'a\u001b[2J'], {
      env: installation.env,
    });
    expect(byId.output.replaceAll('\n', '')).not.toMatch(/\p{Cc}/u);
  });

  atNight(
    'sees what is incomplete, only the problems of one organization, and exports by their name',
    async () => {
      const { pool, s3, db } = installation;
      const sound = await side.exportHour({ name: 'by name' });
      const denied = { status: 403, code: 'AccessDenied', message: 'Access Denied' };
      await s3.faults.add({ match: { operation: 'PutObject' }, times: 100, effect: denied });
      const id = await createS3Export(installation, { name: 'holes' });
      await backfill(installation, id, { start: hour.start, end: '2024-03-01T03:00:00Z' });
      await untilEnded(installation, id, { count: 3 });
      await s3.faults.clear();
      const all = await side.verify();
      expect(all.code).toBe(1);
      expect(all.lines.find((line) => line.includes(id))).toMatch(
        /^INCOMPLETE {2}holes .*: 3 of 3 requested intervals have no data\. .* retry the others\. 0 intervals/,
      );
      expect(all.lines.at(-1)).toMatch(
        /^verified 2 exports \(1 proven, 1 incomplete\): 1 interval, /,
      );
      expect(all.err).toBe('1 of 2 exports not proven\n');
      const problems = await side.verify(['--problems']);
      expect(problems.lines).toHaveLength(2);
      expect((await side.verify(['--export', 'by name'])).lines[0]).toContain(sound);
      const organization = installation.tenant.organizationId;
      expect((await side.verify(['--organization', organization])).lines).toHaveLength(3);
      const { organizationId } = await createTenant(db);
      const none = await side.verify(['--organization', organizationId]);
      expect([none.code, none.err]).toEqual([
        1,
        `There is no export in an organization ${organizationId}. Check the id or the name.\n`,
      ]);
      await pool.query('delete from outbox');
    },
  );

  test('is warned of an ended run in the outbox, and not of ticks that retention has deleted', async () => {
    const { pool, tenant } = installation;
    const id = await side.exportHour();
    const insertTick = `insert into ticks (export_id, tick_at, data_interval_start, data_interval_end, fate, decided_at)
       select $1, t + interval '1 h', t, t + interval '1 h', 'paused', now() - $3 * interval '1 day' from (select $2::timestamptz) as s (t)`;
    await pool.query(insertTick, [id, '2023-01-01T00:00:00Z', 400]);
    await pool.query(insertTick, [id, '2024-01-01T00:00:00Z', 10]);
    expect((await side.verify()).code).toBe(0);
    await pool.query(insertTick, [id, '2024-01-01T05:00:00Z', 9]);
    expect((await side.verify()).out).toMatch(
      /I1 .* an interval ends at 2024-01-01T01:.* next begins at 2024-01-01T05/,
    );
    await pool.query('delete from ticks where export_id = $1', [id]);
    await pool.query(
      `insert into outbox (run_id, team_id, export_id, data_interval_start)
       select id, $2, $1, data_interval_start from runs where export_id = $1`,
      [id, tenant.projectIds[0]],
    );
    expect((await side.verify()).out).toMatch(/I5 .* it has ended and still waits for an attempt/);
    await pool.query('delete from outbox where export_id = $1', [id]);
  });
});

atNight(
  'a former prefix that refuses removals is named with what is left there, and so is a dead marker',
  async () => {
    const id = await side.exportHour({ config: { prefix: 'old' } });
    const { client, pool, sql, s3 } = installation;
    for (const operation of ['PutObject', 'DeleteObject'] as const) {
      await s3.faults.add({
        match: { operation, key: /^old\// },
        times: 1_000,
        effect: { status: 403, code: 'AccessDenied' },
      });
    }
    const path = `${projectPath(installation)}/batch_exports/${id}/`;
    const config = { prefix: 'new' };
    expect((await client.patch(path, { destination: { config } })).status).toBe(200);
    await backfill(installation, id);
    await untilEnded(installation, id, { count: 2 });
    const stem = 'old/20240301T000000Z-20240301T010000Z';
    const left = `${stem}.jsonl, ${stem}_manifest.json`;
    const rights = 's3:GetObject, s3:PutObject and s3:DeleteObject';
    const warning = await until(async () => {
      const { rows } = await sql<{ message: string }>`select message from log_entries
        where export_id = ${id} and message like '%could not be removed%s3:DeleteObject%'`;
      return rows[0]?.message;
    });
    expect(warning).toContain(`2 replaced files could not be removed: ${left}. `);
    expect(warning).toContain(rights);
    await side.put('new/.sluice-test-dead');
    const { code, out } = await side.verify(['--export', id]);
    expect(code, out).toBe(0);
    expect(out).toContain(`2 replaced files still there beside the current ones: ${left}. `);
    expect(out).toContain(rights);
    expect(out).toContain('1 object of tests of the store still there: new/.sluice-test-dead.');
    await s3.remove(bucket, 'new/.sluice-test-dead');
    // Once it may, Sluice removes them.
    await s3.faults.clear();
    await pool.query('update leftover_files set tried_at = null');
    await until(async () => !(await side.verify(['--export', id])).out.includes('still there'));
  },
);
