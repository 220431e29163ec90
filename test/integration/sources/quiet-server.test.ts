/** Settling at a server on which no other transaction writes. */

import { afterAll, beforeAll, expect, test } from 'vitest';
import pg from 'pg';
import { createPostgresSource } from '../../../src/rows/sources/index.ts';
import { type OwnPostgres, startOwnPostgres } from '../../support/postgres-server.ts';
import { until } from '../../support/until.ts';

const never = new AbortController().signal;
let server: OwnPostgres;
let reader: pg.Client;
let writer: pg.Client;

beforeAll(async () => {
  server = await startOwnPostgres({ fsync: 'off', autovacuum: 'off' });
  [reader, writer] = [new pg.Client(server.url), new pg.Client(server.url)];
  await Promise.all([reader.connect(), writer.connect()]);
});
afterAll(async () => {
  await Promise.all([reader?.end(), writer?.end()]);
  await server?.stop();
});

test('a transaction that was prepared before an interval is not what an open one without writes became', async () => {
  await writer.query('CREATE TABLE events (id int)');
  // From here on, no transaction with a later id completes.
  await writer.query(`BEGIN; INSERT INTO events VALUES (1); PREPARE TRANSACTION 'earlier'`);
  await reader.query('BEGIN; SELECT FROM events');
  const { rows } = await writer.query<{ end: number }>(
    'SELECT ceil(extract(epoch FROM clock_timestamp()) * 1000)::float8 + 1 AS end',
  );
  const end = rows[0]?.end ?? 0;
  let looks = 0;
  const source = createPostgresSource({
    connectionString: server.url,
    applicationName: 'quiet settling',
    settlePollMs: 20,
    settleTimeoutMs: 5_000,
    onSettleLook: () => {
      looks += 1;
    },
  });
  const settling = source.settle({ start: end, end }, never);
  await until(() => looks > 3, { message: 'it waits for the reader' });
  await reader.query('COMMIT');
  expect(await settling).toMatchObject({ settled: true, pending: [] });
  await writer.query(`COMMIT PREPARED 'earlier'`);
});
