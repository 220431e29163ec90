import { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import { canaryOf } from '../support/canaries.ts';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  projectPath,
  retireExports,
  untilEnded,
} from '../support/exported-events.ts';
import { startInstallation, testedQueues } from '../support/installation.ts';
import { expectInvariants, findBreaches } from '../support/invariants.ts';
import { useStage } from '../support/use-stage.ts';

/** A test of the checker: each breach is made by hand, and must be found. */

const queue = testedQueues().at(-1);
const installation = useStage(() => startInstallation({ workers: 1, ...(queue ? { queue } : {}) }));

test('files are checked against the settings that made them, not against the current ones', async () => {
  const { client, pool, tenant } = installation;
  const next = { start: hour.end, end: '2024-03-01T02:00:00Z' };
  await insertEvents(pool, { team: tenant.projectIds[0], rows: 100 });
  await insertEvents(pool, { team: tenant.projectIds[0], rows: 50, ...next });
  const exportId = await createS3Export(installation, {
    dsl_query: `SELECT uuid, event, inserted_at FROM events WHERE event <> 'event 1'`,
  });
  await backfill(installation, exportId);
  await untilEnded(installation, exportId);
  const { status, text } = await client.patch(
    `${projectPath(installation)}/batch_exports/${exportId}/`,
    {
      dsl_query: 'SELECT uuid, properties FROM events',
      destination: {
        config: { file_format: 'CSV', compression: 'gzip', exclude_events: ['event 0'] },
      },
    },
  );
  expect(status, text).toBe(200);
  await backfill(installation, exportId, next);
  const runs = await untilEnded(installation, exportId, { count: 2 });
  expect(runs.map(({ rows }) => rows)).toEqual([80, 40]);
  expect(await expectInvariants(installation)).toMatchObject({ intervals: 2, rows: 120 });
  await retireExports(installation);
  await pool.query('delete from events');
});

test('the invariants hold if nothing went wrong, and each breach of them is found', async () => {
  const { pool, sql, s3, secrets, tenant, redis } = installation;
  const team = tenant.projectIds[0];
  const other = await installation.addTenant();
  await insertEvents(pool, { team, rows: 200 });
  const exportId = await createS3Export(installation);
  await backfill(installation, exportId);
  const [run] = await untilEnded(installation, exportId);
  expect(await expectInvariants(installation)).toMatchObject({
    exports: 1,
    intervals: 1,
    rows: 200,
  });

  const secret = secrets.get('the secret access key') ?? '';
  await pool.query(`delete from events where uuid in (select uuid from events limit 1)`);
  await sql`update runs set status = 'Running', finished_at = null where id = ${run?.id}`;
  await pool.query(`update runs set attempt = attempt + 1 where id = $1`, [run?.id]);
  await sql`update runs set status = 'Completed', finished_at = now() where id = ${run?.id}`;
  await pool.query(`update batch_exports set name = 'another name'`);
  await pool.query(
    `insert into log_entries (team_id, export_id, level, message) values ($1, $2, 'INFO', $3), ($1, $2, 'INFO', $4)`,
    [
      team,
      exportId,
      `refused ${Buffer.from(secret).toString('base64')}`,
      canaryOf(other.projectIds[0]),
    ],
  );
  if (redis) {
    const client = new Redis(redis.url);
    await client.hset('bull:sluice-runs:1', 'data', JSON.stringify({ secret }));
    await client.quit();
  }

  const { breaches } = await findBreaches(installation);
  const found = (pattern: RegExp) => breaches.some((breach) => pattern.test(breach));
  expect(
    {
      I3: found(/^I3: .* 1 row gone from the source/),
      move: found(/^I5: .* went from Completed to Running/),
      fence: found(/^I5: .* its fence did not rise/),
      I6: found(/^I6: .* name was Events to S3 and is another name/),
      row: found(/^I7: table .*log_entries holds the secret access key in base64/),
      redis: redis === null || found(/^I7: the Redis key .* holds the secret access key/),
      I8: found(new RegExp(`^I8: a log entry holds a row of team ${other.projectIds[0]}`)),
    },
    breaches.join('\n'),
  ).toEqual({ I3: true, move: true, fence: true, I6: true, row: true, redis: true, I8: true });
  expect(await s3.uploads('exports')).toEqual([]);
});
