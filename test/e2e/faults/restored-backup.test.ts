import { afterAll, beforeAll, expect, test } from 'vitest';
import { testServer } from '../../support/database.ts';
import { withClient } from '../../support/drop-database.ts';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  projectPath,
  untilEnded,
} from '../../support/exported-events.ts';
import { type Installation, startInstallation } from '../../support/installation.ts';
import { findBreaches } from '../../support/invariants.ts';
import { folderOfTests } from '../../support/own-folder.ts';
import { readCommands, runCommands } from '../../support/page-commands.ts';
import { type OwnPostgres, startOwnPostgres } from '../../support/postgres-server.ts';
import { chooseClients } from '../../support/stock-postgres.ts';

const rows = 2_000;
const nextHour = { start: hour.end, end: '2024-03-01T02:00:00Z' };

/** Of docs/backups.md. */
const [dump = '', restore = '', list = '', accept = '', verify = ''] = readCommands('backups.md');
const [before = '', migrate = '', check = ''] = readCommands('upgrade.md');

/** Without PostgreSQL's own programs a copy of the database takes the place of the dump. */
const bin = chooseClients();

let installation: Installation;
let server: OwnPostgres | null = null;
const folder = folderOfTests();
let name: string;
let backup: string;

beforeAll(async () => {
  server = bin === null ? null : await startOwnPostgres();
  installation = await startInstallation({
    workers: 1,
    ...(server ? { databaseUrl: server.url } : {}),
  });
  name = new URL(installation.databaseUrl).pathname.slice(1);
  backup = `${name}_backup`;
});
afterAll(async () => {
  await installation?.close();
  if (server) await server.stop();
  else await asAdmin(`drop database if exists ${backup} with (force)`);
});

const owner = () => (server?.server ?? testServer()).owner.name;

async function asAdmin(statement: string): Promise<void> {
  const url = new URL(server?.adminUrl ?? testServer().adminUrl);
  if (server) url.pathname = '/postgres';
  await withClient(url.href, (client) => client.query(statement));
}

/** Makes a database from another one. No session may need the old one. */
async function copy(from: string, to: string): Promise<void> {
  await asAdmin(`drop database if exists ${to} with (force)`);
  await asAdmin(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${from}'`);
  await asAdmin(`create database ${to} owner ${owner()} template ${from}`);
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

async function makeBackup(): Promise<void> {
  if (bin === null) return copy(name, backup);
  expect(await operate(dump)).toEqual({ code: 0, output: '' });
}

async function restoreBackup(): Promise<void> {
  if (bin === null) return copy(backup, name);
  await asAdmin(`drop database ${name} with (force)`);
  await asAdmin(`create database ${name} owner ${owner()}`);
  expect(await operate(restore)).toEqual({ code: 0, output: '' });
}

async function stopService(): Promise<void> {
  await installation.stopWorkers();
  for (const process of installation.processes.filter((one) => !one.hasExited())) {
    process.kill('SIGTERM');
    await process.waitForExit();
  }
}

async function startService(): Promise<void> {
  await installation.startApi();
  await installation.startWorker();
}

test('a backup that is older than the bucket loses and doubles nothing once it is restored', async () => {
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
  // A dump is made beside the service; a copy of the database needs it to be down.
  if (bin !== null) await makeBackup();
  await stopService();
  if (bin === null) await makeBackup();

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
  await stopService();
  await restoreBackup();

  await startService();
  const eras = await operate(list);
  expect(JSON.parse(eras.output)).toMatchObject([{ held: false }, { held: true }]);
  expect(await operate(accept)).toMatchObject({ code: 0 });
  await backfill(installation, exportId, { start: hour.start, end: nextHour.end });
  const ended = await untilEnded(installation, exportId, { count: 3 });
  expect(ended.map(({ status }) => status)).toEqual(['Completed', 'Completed', 'Completed']);
  const { verified, breaches } = await findBreaches(installation);
  expect(verified).toMatchObject({ exports: 1, intervals: 2, rows: 2 * rows, unproven: [] });
  // Lost is what was asked for after the backup, and nothing else. Its file is still in the bucket.
  const ofTheLost = [`${lost}/ was written and answers 404`, `${lost}/`, 'backfill .* answers 404'];
  expect(breaches.filter((text) => !new RegExp(ofTheLost.join('|')).test(text))).toEqual([]);
  const proof = await operate(verify);
  expect(proof).toMatchObject({ code: 0, output: expect.stringMatching(/^proven .* 4000 rows/) });
});
