import { expect, test } from 'vitest';
import { withClient } from '../../support/drop-database.ts';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  projectPath,
  untilEnded,
} from '../../support/exported-events.ts';
import { startInstallation } from '../../support/installation.ts';
import { findBreaches } from '../../support/invariants.ts';
import { folderOfTests } from '../../support/own-folder.ts';
import { readCommands, runCommands } from '../../support/page-commands.ts';
import { startOwnPostgres } from '../../support/postgres-server.ts';
import { createExportOfThePast, hourMs, listRuns } from '../../support/run-side.ts';
import { chooseClients } from '../../support/stock-postgres.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

const rows = 2_000;
const nextHour = { start: hour.end, end: '2024-03-01T02:00:00Z' };

/** Of docs/backups.md. */
const [dump = '', restore = '', list = '', accept = '', verify = ''] = readCommands('backups.md');
const [before = '', migrate = '', check = ''] = readCommands('upgrade.md');

/** PostgreSQL's own programs; `restored-elements.test.ts` copies the database instead. */
const bin = chooseClients();

const folder = folderOfTests();
const server = useStage(() => startOwnPostgres());
const installation = useStage(() => startInstallation({ workers: 1, databaseUrl: server.url }));

async function asAdmin(statement: string): Promise<void> {
  const url = new URL('/postgres', server.adminUrl);
  await withClient(url.href, (client) => client.query(statement));
}

/** Runs commands of a page as an operator. */
function operate(commands: string) {
  const { env, databaseUrl, client, tenant } = installation;
  return runCommands(commands, {
    cwd: folder,
    bin: bin ?? folder,
    env: {
      ...env,
      DATABASE_URL: databaseUrl,
      RESTORED_URL: databaseUrl,
      SLUICE_URL: client.baseUrl,
      SLUICE_KEY: tenant.key,
    },
  });
}

async function restoreBackup(): Promise<void> {
  const name = new URL(server.url).pathname.slice(1);
  await asAdmin(`drop database ${name} with (force)`);
  await asAdmin(`create database ${name} owner ${server.server.owner.name}`);
  expect(await operate(restore)).toEqual({ code: 0, output: '' });
}

async function startService(): Promise<void> {
  await installation.startApi();
  await installation.startWorker();
}

/** Nothing runs, whatever is due, until an operator accepts the era. @returns what waits until it has run then */
async function expectHeld(): Promise<() => Promise<void>> {
  const { client, db, tenant, workers } = installation;
  const teamId = tenant.projectIds[0];
  const { id } = await createExportOfThePast({ db, teamId }, { createdMsAgo: 3 * hourMs });
  expect(workers.at(-1)?.output()).toMatch(/"level":"warn".*The service is held/);
  const era = () => client.get('/readyz').then(({ body }) => body);
  await until(async () => (await era()).status === 'degraded');
  expect(await era()).toMatchObject({
    checks: { postgres: 'ok', era: expect.stringContaining('sluice eras accept') },
  });
  // While the worker reports twice, several ticks and a sweep come.
  const reportedAt = async () =>
    (await db.query<{ at: string }>('select max(heartbeat_at)::text as at from workers'))[0]?.at;
  for (let report = 0; report < 2; report += 1) {
    const last = await reportedAt();
    await until(async () => (await reportedAt()) !== last, { message: 'the worker reports' });
  }
  expect(await listRuns(db, id)).toEqual([]);
  return async () => {
    const statuses = async () => (await listRuns(db, id)).map(({ status }) => status).join();
    await until(async () => (await statuses()) === 'Completed,Completed,Completed');
    await until(async () => JSON.stringify(await era()).includes('"era":"ok"'));
    await client.delete(`${projectPath(installation)}/batch_exports/${id}/`);
  };
}

test.skipIf(bin === null)(
  'a backup that is older than the bucket loses and doubles nothing once it is restored',
  async () => {
    const { tenant, pool, client } = installation;
    const team = tenant.projectIds[0];
    await insertEvents(pool, { team, rows });
    await insertEvents(pool, { team, rows, ...nextHour });
    const exportId = await createS3Export(installation);
    await backfill(installation, exportId);
    await untilEnded(installation, exportId);
    // As before and after an upgrade.
    for (const commands of [before, migrate, check]) {
      expect(await operate(commands)).toMatchObject({ code: 0 });
    }
    // A dump is made beside the service.
    expect(await operate(dump)).toEqual({ code: 0, output: '' });
    await installation.stopAll();

    // What the backup does not know: the first hour again with other bytes, a second hour, another export.
    await startService();
    const exportPath = `${projectPath(installation)}/batch_exports/${exportId}/`;
    const { body } = await client.get(exportPath);
    const changed = await client.patch(exportPath, {
      destination: { type: 'S3', config: { ...body.destination.config, compression: 'gzip' } },
    });
    expect(changed.status).toBe(200);
    await backfill(installation, exportId, { start: hour.start, end: nextHour.end });
    await untilEnded(installation, exportId, { count: 3 });
    const lost = await createS3Export(installation, { name: 'Made after the backup' });
    await backfill(installation, lost);
    await untilEnded(installation, lost);
    await installation.stopAll();
    await restoreBackup();

    await startService();
    const eras = await operate(list);
    expect(JSON.parse(eras.output)).toMatchObject([{ held: false }, { held: true }]);
    const untick = await expectHeld();
    expect(await operate(accept)).toMatchObject({ code: 0 });
    await untick();
    await backfill(installation, exportId, { start: hour.start, end: nextHour.end });
    const ended = await untilEnded(installation, exportId, { count: 3 });
    expect(ended.map(({ status }) => status)).toEqual(['Completed', 'Completed', 'Completed']);
    const { verified, breaches } = await findBreaches(installation);
    expect(verified).toMatchObject({ exports: 1, intervals: 2, rows: 2 * rows, unproven: [] });
    // Lost is what was asked for after the backup, and nothing else. Its file is still in the bucket.
    const ofTheLost = [
      `${lost}/ was written and answers 404`,
      `${lost}/`,
      'backfill .* answers 404',
    ];
    expect(breaches.filter((text) => !new RegExp(ofTheLost.join('|')).test(text))).toEqual([]);
    const proof = await operate(verify);
    expect(proof).toMatchObject({ code: 0, output: expect.stringMatching(/^proven .* 4000 rows/) });
  },
);
