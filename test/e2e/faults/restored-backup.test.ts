import { Client } from 'pg';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
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
import { startSluice } from '../../support/processes.ts';

const rows = 2_000;
const nextHour = { start: hour.end, end: '2024-03-01T02:00:00Z' };

let installation: Installation;
let name: string;
let backup: string;

beforeAll(async () => {
  installation = await startInstallation({ workers: 1 });
  name = new URL(installation.databaseUrl).pathname.slice(1);
  backup = `${name}_backup`;
});
afterAll(async () => {
  await installation?.close();
  await asAdmin(`drop database if exists ${backup} with (force)`);
});

async function asAdmin(statement: string): Promise<void> {
  const client = new Client({ connectionString: inject('postgres').adminUrl });
  await client.connect();
  await client.query(statement).finally(() => client.end());
}

/** Makes a database from another one, as `pg_dump` and `pg_restore` do. The service must be down. */
async function copy(from: string, to: string): Promise<void> {
  await asAdmin(`drop database if exists ${to} with (force)`);
  await asAdmin(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${from}'`);
  await asAdmin(`create database ${to} template ${from}`);
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
  const { tenant, pool, client, databaseUrl, env } = installation;
  const team = tenant.projectIds[0];
  await insertEvents(pool, { team, rows });
  await insertEvents(pool, { team, rows, ...nextHour });
  const exportId = await createS3Export(installation);
  await backfill(installation, exportId);
  await untilEnded(installation, exportId);
  await stopService();
  await copy(name, backup);

  // What the backup does not know: the first hour again with other bytes, a second hour, another export.
  await startService();
  const exportPath = `${projectPath(installation)}/batch_exports/${exportId}/`;
  const { body } = await client.get(exportPath);
  const changed = await client.patch(exportPath, {
    destination: {
      type: 'S3',
      config: { ...body.destination.config, compression: 'gzip' },
    },
  });
  expect(changed.status).toBe(200);
  await backfill(installation, exportId, { start: hour.start, end: nextHour.end });
  await untilEnded(installation, exportId, { count: 3 });
  const lost = await createS3Export(installation, { name: 'Made after the backup' });
  await backfill(installation, lost);
  await untilEnded(installation, lost);
  await stopService();
  await copy(backup, name);

  await startService();
  const accept = startSluice('cli/sluice.js', ['eras', 'accept'], {
    env: { ...env, DATABASE_URL: databaseUrl },
  });
  expect(await accept.waitForExit()).toMatchObject({ code: 0 });
  await backfill(installation, exportId, { start: hour.start, end: nextHour.end });
  const ended = await untilEnded(installation, exportId, { count: 3 });
  expect(ended.map(({ status }) => status)).toEqual(['Completed', 'Completed', 'Completed']);
  const { verified, breaches } = await findBreaches(installation);
  expect(verified).toMatchObject({ exports: 1, intervals: 2, rows: 2 * rows, unproven: [] });
  // Lost is what was asked for after the backup, and nothing else. Its file is still in the bucket.
  const ofTheLost = [`${lost}/ was written and answers 404`, `${lost}/`, 'backfill .* answers 404'];
  expect(breaches.filter((text) => !new RegExp(ofTheLost.join('|')).test(text))).toEqual([]);
});
