import { afterAll, beforeAll, expect, test } from 'vitest';
import type { VerifyReport } from '../../src/verify/verify-exports.ts';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  untilEnded,
} from '../support/exported-events.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { startBundled } from '../support/processes.ts';

let installation: Installation;
beforeAll(async () => {
  installation = await startInstallation({ workers: 1 });
});
afterAll(() => installation?.close());

async function verify(...args: string[]) {
  const command = startBundled('cli/sluice.js', ['verify', ...args], { env: installation.env });
  const { code } = await command.waitForExit(60_000);
  return { code, lines: command.output().split('\n') };
}

test('verify goes on after a breach and after a bucket that it cannot read: a line and a remedy for each export', async () => {
  const { pool, tenant } = installation;
  await insertEvents(pool, { team: tenant.projectIds[0], rows: 100 });
  const ids: string[] = [];
  for (const name of ['broken', 'unread', 'sound']) {
    const id = await createS3Export(installation, { name });
    await backfill(installation, id, hour);
    await untilEnded(installation, id);
    ids.push(id);
  }
  const [broken, unread, sound] = ids;
  expect((await verify()).code).toBe(0);

  await pool.query('update runs set records_completed = 99 where export_id = $1', [broken]);
  await pool.query(
    `update batch_exports set destination_config = destination_config || '{"bucket_name": "gone"}' where id = $1`,
    [unread],
  );
  const { code, lines } = await verify();
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

  const json = await verify('--json');
  expect(json.code).toBe(1);
  const report = JSON.parse(json.lines.find((line) => line.startsWith('{')) ?? '') as VerifyReport;
  expect(report.findings.map(({ exportId }) => exportId)).toEqual([broken]);
  expect(report.results.map(({ id, failure }) => [id, failure !== null])).toEqual([
    [broken, false],
    [unread, true],
    [sound, false],
  ]);
});
