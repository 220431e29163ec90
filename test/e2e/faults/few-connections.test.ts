/** A server with fewer connections than the processes may open makes everything slow. Nothing stops, and no attempt fails. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Client } from 'pg';
import {
  backfill,
  createS3Export,
  insertEvents,
  untilEnded,
} from '../../support/exported-events.ts';
import { type QueueKind, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { casesOf } from '../../support/nightly.ts';
import { ownRedisAvailable } from '../../support/redis.ts';
import { type OwnPostgres, startOwnPostgres } from '../../support/postgres-server.ts';

interface Lane {
  readonly limit: number;
  readonly workers: number;
  readonly queue: QueueKind;
}

const lanes: readonly Lane[] = casesOf(
  [
    { limit: 8, workers: 2, queue: 'redis' },
    { limit: 20, workers: 2, queue: 'postgres' },
  ],
  [
    { limit: 20, workers: 2, queue: 'redis' },
    { limit: 8, workers: 1, queue: 'postgres' },
  ],
);

const hours = 6;
const start = '2024-03-01T00:00:00Z';
const end = '2024-03-01T06:00:00Z';

describe('a role with a limit of connections, for our tables and the rows', () => {
  let server: OwnPostgres;
  let admin: Client;

  beforeAll(async () => {
    server = await startOwnPostgres();
    admin = new Client({ connectionString: server.adminUrl });
    await admin.connect();
  });
  afterAll(async () => {
    await admin?.end();
    await server?.stop();
  });

  async function createDatabase(name: string, limit: number) {
    await admin.query(`create role ${name} login password 'app' connection limit ${limit}`);
    await admin.query(`create database ${name} owner ${name} template template0`);
    const url = new URL(server.adminUrl);
    url.pathname = `/${name}`;
    const owner = new Client({ connectionString: url.href });
    await owner.connect();
    // The installation has tables of its own, which a trigger writes.
    await owner.query(`alter default privileges grant all on tables to ${name}`);
    await owner.query(`alter default privileges grant usage on schemas to ${name}`);
    await owner.end();
    const limited = new URL(url);
    [limited.username, limited.password] = [name, 'app'];
    return { url: url.href, limitedUrl: limited.href };
  }

  test.each(lanes)('$limit, queue in $queue, $workers workers', async (lane) => {
    const { limit, workers, queue } = lane;
    if (queue === 'redis' && !ownRedisAvailable()) return;
    const { url, limitedUrl } = await createDatabase(`few_${lanes.indexOf(lane)}`, limit);
    const installation = await startInstallation({
      ...{ queue, workers, databaseUrl: url, reachedAt: () => limitedUrl },
      env: { LEASE_SECONDS: '5' },
    });
    try {
      const { pool, tenant } = installation;
      const [teamId] = tenant.projectIds;
      await insertEvents(pool, { team: teamId, rows: 600, start, end });
      const exportIds = [];
      for (const name of ['one', 'two', 'three']) {
        exportIds.push(await createS3Export(installation, { name }));
      }
      await Promise.all(exportIds.map((id) => backfill(installation, id, { start, end })));
      for (const id of exportIds) {
        const runs = await untilEnded(installation, id, { count: hours, timeoutMs: 120_000 });
        const ends = runs.map(({ status, attempt }) => `${status} ${attempt}`);
        expect(new Set(ends)).toEqual(new Set(['Completed 1']));
      }
      for (const { output } of installation.workers) {
        expect(output()).not.toMatch(/an attempt failed|leases could not be renewed/);
      }
      await expectInvariants(installation);
    } finally {
      await installation.close();
    }
  });
});
