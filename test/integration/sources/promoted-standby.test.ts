import { timeOf } from '../../support/source-sessions.ts';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createPostgresSource } from '../../../src/rows/sources/index.ts';
import type { EarlierExport, Settlement, Source } from '../../../src/rows/sources/source.ts';
import { mayHaveLateRows } from '../../support/late-rows.ts';
import { createEvents, readAll, hourRequest } from '../../support/source-tables.ts';
import { type Replication, startReplication } from '../../support/standby.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';

const never = new AbortController().signal;
/** Rows whose times their clients set. */
const request = hourRequest();
const portOf = (url: string) => Number(new URL(url).port);

let replication: Replication;
/** An address that leads to the primary, and after the failover to the standby that was promoted. */
let proxy: TcpProxy;
let failedOver: Client;
/** Of the standby. */
let source: Source;
/** Of the address. */
let primary: Source;
/** What was known before the failover. */
let before: {
  readonly earlier: EarlierExport;
  readonly interval: { readonly start: number; readonly end: number };
  readonly settlement: Settlement;
};

const insertAt = (client: Client, at: string) =>
  client.query(
    'insert into events (uuid, team_id, inserted_at) values (gen_random_uuid(), 1, $1)',
    [at],
  );

/** The standby lacks the last transactions of its primary: among them the end of a prepared one. */
beforeAll(async () => {
  replication = await startReplication({ max_prepared_transactions: '5' });
  const target = { port: portOf(replication.primary.adminUrl) };
  proxy = await startTcpProxy({ target });
  const address = new URL(replication.primary.adminUrl);
  address.host = `${proxy.host}:${proxy.port}`;
  const options = { settleTimeoutMs: 500, settlePollMs: 20 };
  primary = createPostgresSource({ connectionString: address.href, ...options });
  source = createPostgresSource({
    connectionString: replication.standbyUrl,
    primaryUrl: replication.primary.adminUrl,
    ...options,
  });
  const writer = new Client(replication.primary.adminUrl);
  await writer.connect();
  await writer.query(createEvents);
  await insertAt(writer, '2024-03-01T00:10:00Z');
  await writer.query('begin');
  await writer.query('insert into events (uuid, team_id) values (gen_random_uuid(), 1)');
  await writer.query(`prepare transaction 'open at the standby'`);
  await replication.untilReplayed();
  await replication.detach();

  await writer.query(`commit prepared 'open at the standby'`);
  for (let n = 0; n < 20; n += 1) await insertAt(writer, '2024-03-01T00:20:00Z');
  const opened = await primary.open(request, never);
  await readAll(opened, never);
  const { digest, count } = opened.keySet() ?? { digest: null, count: -1 };
  const earlier = { snapshot: opened.snapshot, digest, count };
  await opened.close();
  const end = await timeOf(writer);
  await writer.end();
  const interval = { start: end - 3_600_000, end };
  before = { earlier, interval, settlement: await source.settle(interval, never) };

  await replication.promote();
  target.port = portOf(replication.standbyUrl);
  proxy.cut();
  failedOver = new Client(replication.standbyUrl);
  failedOver.on('error', () => {});
  await failedOver.connect();
});
afterAll(async () => {
  await failedOver?.end();
  await proxy?.close();
  await replication?.stop();
});

it('a standby that was promoted does not show what it had not replayed', async () => {
  const { settlement, interval } = before;
  const [replay = ''] = settlement.pending;
  expect(replay).toMatch(/^replay:/);
  const position = replay.replace('replay:', '');
  await expect(source.open({ ...request, interval }, never, position)).rejects.toMatchObject({
    code: 'source.unavailable',
  });
});

it('an interval that waited for a replay is looked at anew once its standby was promoted', async () => {
  const { settlement, interval } = before;
  const found = await source.recheck(interval, settlement.pending, never);
  expect(found).toMatchObject({ settled: false });
  expect(found.pending).toContainEqual(expect.stringMatching(/^prepared:/));
  await failedOver.query(`commit prepared 'open at the standby'`);
  const last = await source.recheck(interval, found.pending, never);
  expect(last).toMatchObject({ settled: true });
  const nothing = { snapshot: '1:1:', digest: null, count: 0 };
  const { position, server } = last;
  expect(
    await mayHaveLateRows(source, { ...request, interval }, nothing, position, never, server),
  ).toBe(true);
});

it('a late row is found though the failover lost more rows, and its transaction has an id of before', async () => {
  const { earlier } = before;
  await insertAt(failedOver, '2024-03-01T00:30:00Z');
  const { rows } = await failedOver.query<{ id: string }>(
    'select max(xmin::text::bigint) as id from events',
  );
  const oldest = Number.parseInt(earlier.snapshot, 10);
  expect(Number(rows[0]?.id)).toBeLessThan(oldest);
  // Until the ids have come as far as they were, every row counts.
  for (let newest = 0; newest <= oldest; ) {
    const { rows: ids } = await failedOver.query<{ id: string }>(
      'select pg_current_xact_id()::text as id',
    );
    newest = Number(ids[0]?.id);
  }
  expect(await mayHaveLateRows(primary, request, earlier, null, never)).toBe(true);
});
