/** What a standby does to a long read, and what Sluice says about it. */

import { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { caseRequest, openSourceCase, type SourceCase } from '../support/source-cases.ts';
import { type Replication, startReplication } from '../support/standby.ts';
import { until } from '../support/until.ts';

const never = new AbortController().signal;
let replication: Replication;
let shop: SourceCase;
let admin: Client;

beforeAll(async () => {
  replication = await startReplication({
    max_standby_streaming_delay: '100ms',
    hot_standby_feedback: 'off',
  });
  shop = await openSourceCase({ url: replication.primary.url, stop: async () => {} });
  admin = new Client({ connectionString: replication.primary.url });
  await admin.connect();
});

afterAll(async () => {
  await admin?.end();
  await shop?.close();
  await replication?.stop();
});

test('a statement that replay ends is a conflict to retry, and names the two settings', async () => {
  await shop.create(
    `create view shop.slow as select id, team, at, pg_sleep(0.5)::text as v from shop.base`,
  );
  await replication.untilReplayed();
  const url = new URL(replication.standbyUrl);
  url.username = shop.reader;
  url.password = 'reader';
  const source = shop.source(
    { relation: { schema: 'shop', name: 'slow' } },
    { connectionString: url.href, primaryUrl: shop.url },
  );
  const snapshot = await source.open(caseRequest(), never);
  const read = async () => {
    for (const slice of snapshot.slices) {
      for await (const block of snapshot.read(slice, never))
        expect(block.rowCount).toBeGreaterThan(0);
    }
  };
  const reading = read();
  const failing = expect(reading).rejects.toMatchObject({
    code: 'source.recovery_conflict',
    detail: expect.stringMatching(/^SQLSTATE 40001: .*conflict with recovery/),
    spec: {
      retryable: true,
      remedy: expect.stringMatching(/hot_standby_feedback .* max_standby_streaming_delay/),
    },
  });
  let isOver = false;
  void reading.catch(() => {
    isOver = true;
  });
  // Vacuum removes the rows that the standby still reads.
  await until(async () => {
    await admin.query(`update shop.base set v = v || 'x'`);
    await admin.query('vacuum shop.base');
    return isOver;
  });
  await failing;
  await snapshot.close();
});
