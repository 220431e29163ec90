import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { canaryOf } from '../../support/canaries.ts';
import {
  backfill,
  countParts,
  createS3Export,
  insertEvents,
  readRuns,
  retireExports,
  untilEnded,
} from '../../support/exported-events.ts';
import { bucket, type Installation, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { atNight, casesOf } from '../../support/nightly.ts';
import { type OwnPostgres, startOwnPostgres } from '../../support/postgres-server.ts';
import { until } from '../../support/until.ts';

/** Three parts of 5 MiB, the last one shorter. */
const rows = 3_000;
const day = (n: number) => ({
  start: `2024-03-${String(n).padStart(2, '0')}T00:00:00Z`,
  end: `2024-03-${String(n).padStart(2, '0')}T01:00:00Z`,
});

let postgres: OwnPostgres;
let installation: Installation;
let team: number;
beforeAll(async () => {
  // By default a server prepares no transactions.
  postgres = await startOwnPostgres();
  installation = await startInstallation({ workers: 1, databaseUrl: postgres.url });
  team = installation.tenant.projectIds[0];
});
afterAll(async () => {
  await installation?.close();
  await postgres?.stop();
});

const insertOne = (at: string) =>
  `insert into events (uuid, team_id, event, properties, inserted_at)
   values (gen_random_uuid(), ${team}, 'late', '{"canary": "${canaryOf(team)}"}', '${at}')`;

test('rows of transactions that commit late are all in the interval: open, begun and silent, under a savepoint, prepared', async () => {
  const at = day(1).start;
  await insertEvents(installation.pool, { team, rows: 10, ...day(1) });
  const connect = async () => {
    const client = new Client({ connectionString: installation.databaseUrl });
    await client.connect();
    await client.query('begin');
    return client;
  };
  const [open, silent, nested, prepared] = [
    await connect(),
    await connect(),
    await connect(),
    await connect(),
  ];
  await open.query(insertOne(at));
  await silent.query('select 1');
  await nested.query('savepoint a');
  await nested.query(insertOne(at));
  await nested.query('release a');
  await prepared.query(insertOne(at));
  await prepared.query(`prepare transaction 'late'`);

  const exportId = await createS3Export(installation, { name: 'late rows' });
  await backfill(installation, exportId, day(1));
  await until(
    async () => {
      const waiting = 'select from outbox where export_id = $1 and waits_since is not null';
      return (await installation.pool.query(waiting, [exportId])).rowCount === 1;
    },
    { message: 'the run waits for them' },
  );
  await open.query('commit');
  await silent.query(insertOne(at));
  await silent.query('commit');
  await nested.query('commit');
  // All but one have ended, and still it waits.
  const [waiting] = await readRuns(installation, exportId);
  expect(waiting).toMatchObject({ status: 'Starting', rows: null });
  await prepared.query(`commit prepared 'late'`);
  expect(await untilEnded(installation, exportId)).toMatchObject([
    { status: 'Completed', rows: 14, attempt: 1 },
  ]);
  await Promise.all([open, silent, nested, prepared].map((client) => client.end()));
  expect(await expectInvariants(installation)).toMatchObject({ rows: 14 });
  await retireExports(installation);
});

test('rows that are changed and deleted while an export reads them: one snapshot, and counts that say so', async () => {
  const { pool, s3 } = installation;
  await insertEvents(pool, { team, rows, rowBytes: 4_000, ...day(2) });
  const exportId = await createS3Export(installation, { name: 'a moving source' });
  await s3.faults.add({
    match: { operation: 'UploadPart', key: new RegExp(exportId) },
    times: 2,
    effect: { delayMs: 1_000 },
  });
  await backfill(installation, exportId, day(2));
  await until(async () => (await countParts(installation, exportId)) >= 1);
  const range = `team_id = ${team} and inserted_at >= '${day(2).start}' and inserted_at < '${day(2).end}'`;
  await pool.query(`create table kept as select * from events where ${range}`);
  await pool.query(`update events set properties = '{"changed": true}' where ${range}`);
  await pool.query(`delete from events where ${range} and mod(hashtext(uuid::text), 2) = 0`);

  expect(await untilEnded(installation, exportId)).toMatchObject([
    { status: 'Completed', rows, attempt: 1 },
  ]);
  const key = (await s3.objects(bucket)).find(
    (object) => object.key.startsWith(exportId) && object.key.endsWith('.jsonl'),
  );
  const body = (await s3.body(bucket, key?.key ?? '')).toString();
  expect(body.trimEnd().split('\n')).toHaveLength(rows);
  expect(body).not.toContain('"changed"');
  // The checker compares with the source as it is: it becomes again what the snapshot saw.
  await pool.query(
    `delete from events where ${range}; insert into events select * from kept; drop table kept`,
  );
  await expectInvariants(installation);
  await retireExports(installation);
});

atNight(
  'a source that shrinks between two attempts: the second one counts anew and leaves no file of the first',
  async () => {
    const { pool, s3 } = installation;
    await insertEvents(pool, { team, rows, rowBytes: 6_000, ...day(3) });
    await installation.stopWorkers();
    const doomed = await installation.startWorker({ FAILPOINTS: 'before_manifest=kill' });
    const exportId = await createS3Export(installation, {
      name: 'a shrinking source',
      config: { max_file_size_mb: 1 },
    });
    await backfill(installation, exportId, day(3));
    expect(await doomed.waitForExit()).toMatchObject({ signal: 'SIGKILL' });
    const files = async () =>
      (await s3.objects(bucket)).filter(({ key }) => key.startsWith(exportId)).length;
    const before = await files();
    expect(before, 'the files of the first attempt').toBeGreaterThan(4);
    await pool.query(
      `delete from events where team_id = ${team} and inserted_at >= '2024-03-03T00:10:00Z' and inserted_at < '${day(3).end}'`,
    );
    await installation.startWorker();
    expect(await untilEnded(installation, exportId)).toMatchObject([
      { status: 'Completed', rows: rows / 6, attempt: 2 },
    ]);
    await expectInvariants(installation);
    expect(await files()).toBeLessThan(before);
  },
);

describe('odd rows', () => {
  const odd = day(4);
  const texts = [
    '',
    ' ',
    '"',
    '\\',
    ',',
    '\n',
    '\r\n',
    '\\N',
    'null',
    '\u0001',
    '\u2028',
    'Größe 🙂',
    '=1+1',
  ];
  const times = [
    'infinity',
    '-infinity',
    '0044-03-15 12:00:00 BC',
    '294276-12-31 23:59:59Z',
    '10000-01-01Z',
  ];
  const jsons = [
    '{"n": 9007199254740993, "x": 1e400, "text": "\\"quoted\\"\\nline"}',
    '[]',
    'null',
    '""',
    '"\\ud83d\\ude42"',
    '12345678901234567890.10',
  ];
  const count = texts.length + 1 + times.length + jsons.length;

  beforeAll(async () => {
    await installation.stopWorkers();
    await installation.startWorker();
    const add = (values: Record<string, string | null>) =>
      installation.pool.query(
        `insert into events (uuid, team_id, event, distinct_id, properties, timestamp, inserted_at)
         values (gen_random_uuid(), $1, $2, $3, $4, $5, $6)`,
        [
          team,
          values.event ?? null,
          values.text ?? null,
          values.json ?? null,
          values.time ?? null,
          odd.start,
        ],
      );
    for (const text of texts) await add({ event: text, text });
    await add({});
    for (const time of times) await add({ time });
    for (const json of jsons) await add({ json });
  });

  const formats = casesOf<readonly [string, string | null]>(
    [['Parquet', 'zstd']],
    [
      ['JSONLines', null],
      ['CSV', 'gzip'],
    ],
  );
  test.each(formats)(
    'as %s: each is in the file, or in the rejected file with the reason',
    async (format, compression) => {
      const exportId = await createS3Export(installation, {
        name: `odd rows as ${format}`,
        config: { file_format: format, compression },
      });
      await backfill(installation, exportId, odd);
      expect(await untilEnded(installation, exportId)).toMatchObject([{ status: 'Completed' }]);
      const { rows: found } = await installation.pool.query<
        Record<'total' | 'done' | 'rejected', number>
      >(
        `select records_total_count::int as total, records_completed::int as done, records_rejected::int as rejected
         from runs where export_id = $1`,
        [exportId],
      );
      expect(found[0]?.total).toBe(count);
      expect((found[0]?.done ?? 0) + (found[0]?.rejected ?? 0)).toBe(count);
      if (format !== 'Parquet') expect(found[0]?.rejected).toBe(0);
      const keys = (await installation.s3.objects(bucket)).map(({ key }) => key);
      const rejectedFiles = keys.filter(
        (key) => key.startsWith(exportId) && key.includes('_rejected'),
      );
      expect(rejectedFiles).toHaveLength(found[0]?.rejected ? 1 : 0);
      for (const key of rejectedFiles) {
        const lines = (await installation.s3.body(bucket, key)).toString().trimEnd().split('\n');
        expect(lines).toHaveLength(found[0]?.rejected ?? 0);
      }
      await expectInvariants(installation);
      await retireExports(installation);
    },
  );
});
