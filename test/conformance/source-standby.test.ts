/** What a standby does to a long read, and what Sluice says about it. */

import { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Source, SourceSnapshot } from '../../src/rows/sources/source.ts';
import { attempt, encodingOf, firstJob, jobAfter, openedBy } from '../support/interval-bench.ts';
import { type SourceCase, caseRequest, openSourceCase, relation } from '../support/source-cases.ts';
import { readAll } from '../support/source-tables.ts';
import { type Replication, startReplication } from '../support/standby.ts';
import { until } from '../support/until.ts';

const never = new AbortController().signal;
const settings = { max_standby_streaming_delay: '200ms', hot_standby_feedback: 'off' };

let pair: Replication;
let shop: SourceCase;
let admin: Client;
let standby: Client;
let source: Source;

beforeAll(async () => {
  pair = await startReplication(settings);
  shop = await openSourceCase({ url: pair.primary.adminUrl, stop: async () => {} });
  admin = new Client({ connectionString: pair.primary.adminUrl });
  standby = new Client({ connectionString: pair.standbyUrl });
  await Promise.all([admin.connect(), standby.connect()]);
  await shop.create(
    `create view shop.slow as select id, team, at, pg_sleep(0.01)::text as v from shop.base`,
  );
  const url = new URL(pair.standbyUrl);
  url.username = shop.reader;
  url.password = 'reader';
  source = shop.source(relation('slow'), {
    connectionString: url.href,
    primaryUrl: shop.url,
    keepConnectionMs: 2_000,
  });
  await until(async () => (await rowsAtStandby()) === 100);
});

afterAll(async () => {
  await Promise.all([admin?.end(), standby?.end()]);
  await shop?.close();
  await pair?.stop();
});

const rowsAtStandby = () =>
  standby.query('select from shop.slow').then(
    ({ rowCount }) => rowCount,
    () => null,
  );

/** Vacuum removes rows that the standby may still read, again and again while `work` goes on. */
async function whileVacuumed<T>(
  work: Promise<T>,
  change = `update shop.base set v = v || 'x' where id = 1`,
  vacuum = 'vacuum shop.base',
): Promise<T> {
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  work.then(end, end);
  await until(
    async () => {
      await admin.query(change);
      await admin.query(vacuum);
      return isOver;
    },
    { timeoutMs: 120_000, everyMs: 100 },
  );
  return work;
}

async function countOf(snapshot: SourceSnapshot): Promise<number> {
  try {
    const blocks = await readAll(snapshot, never);
    const rows = blocks.reduce((sum, { rowCount }) => sum + rowCount, 0);
    expect(await snapshot.countRows(never)).toBe(rows);
    return rows;
  } finally {
    await snapshot.close();
  }
}

const conflict = {
  code: 'source.recovery_conflict',
  detail: expect.stringMatching(/^SQLSTATE 40001: .*conflict with recovery/),
  spec: {
    retryable: true,
    remedy: expect.stringMatching(/hot_standby_feedback .* max_standby_streaming_delay/),
  },
};

test('that ends a session between two statements is named as such', async () => {
  const snapshot = await source.open(caseRequest(), never);
  const sessions = async () => {
    const name = [shop.reader];
    // Another session may look who waits for it.
    const sql = `select from pg_stat_activity where usename = $1 and state = 'idle in transaction'`;
    return (await standby.query(sql, name)).rowCount;
  };
  expect(await sessions()).toBe(1);
  await whileVacuumed(until(async () => (await sessions()) === 0));
  await expect(countOf(snapshot)).rejects.toMatchObject(conflict);
});

test('that ends long reads is read in shorter ones, without a row less', async () => {
  const expected = shop.source(relation('slow'));
  const whole = await expected.open(caseRequest(), never);
  expect(await countOf(whole)).toBe(100);
  const short = await source.open(caseRequest(), never);
  expect(short.totalCount).toBeNull();
  expect(await whileVacuumed(countOf(short))).toBe(100);
  expect(short.keySet()).toEqual(whole.keySet());
  expect(short.columns).toEqual(whole.columns);
});

test('that ends long reads of keys gets its late rows, each once', async () => {
  await shop.create(`create table shop.kept (like shop.base including all);
      insert into shop.kept select * from shop.base`);
  const keptRows = () =>
    standby.query('select from shop.kept').then(
      ({ rowCount }) => rowCount,
      () => null,
    );
  await until(async () => (await keptRows()) === 100);
  const url = new URL(pair.standbyUrl);
  url.username = shop.reader;
  url.password = 'reader';
  const kept = shop.source(relation('kept'), { connectionString: url.href, primaryUrl: shop.url });
  const keysOnly = caseRequest({ select: 'keys' });
  const ended = await kept.open(keysOnly, never);
  await whileVacuumed(
    until(async () => {
      const sql = `select from pg_stat_activity where usename = $1 and state = 'idle in transaction'`;
      return (await standby.query(sql, [shop.reader])).rowCount === 0;
    }),
    `update shop.kept set v = 'x' where id = 1`,
    'vacuum shop.kept',
  );
  await expect(countOf(ended)).rejects.toMatchObject(conflict);
  const { destination, close } = await openedBy.File();
  try {
    const request = caseRequest();
    const job = firstJob({ request, encoding: encodingOf({ file_format: 'JSONLines' }) });
    const first = await attempt({ source: kept }, destination, job).exported;
    expect(first.result.rows).toBe(100);
    await admin.query(
      `insert into shop.kept select 1000, team, at + interval '1 ms', v from shop.kept where id = 50`,
    );
    await until(async () => (await keptRows()) === 101);
    const { snapshot, keyDigest: digest } = first.result;
    const looked = await kept.lookAgain(request, { snapshot, digest, count: 100 }, null, never);
    expect(looked).toMatchObject({ mayHaveLateRows: true, now: { count: 101 } });
    const again = jobAfter(job, first, { purpose: 'supplement' });
    const added = await attempt({ source: kept }, destination, again).exported;
    expect(added.result).toMatchObject({ totalRows: 1, rows: 1, keyCount: 101 });
    const third = jobAfter(again, added);
    const nothing = await attempt({ source: kept }, destination, third).exported;
    expect(nothing.result).toMatchObject({ totalRows: 0, keyCount: 101 });
    const same = await kept.lookAgain(request, looked.now, null, never);
    expect(same.mayHaveLateRows).toBe(false);
    const counted = await kept.open(keysOnly, never);
    expect([counted.totalCount, await counted.countRows(never)]).toEqual([null, 101]);
  } finally {
    await close();
  }
});

test('that ends long reads keeps nothing from being verified', async () => {
  const earlier = { snapshot: '1:1:@1', digest: null, count: 100 };
  expect(await whileVacuumed(source.hasChanged(caseRequest(), earlier, never))).toBe(true);
});

test('that ends every read names the two settings', async () => {
  await shop.create(
    `create view shop.slower as select id, team, at, pg_sleep(2)::text as v from shop.base`,
  );
  await until(
    async () =>
      (await standby.query(`select to_regclass('shop.slower') as found`)).rows[0].found !== null,
  );
  const url = new URL(pair.standbyUrl);
  url.username = shop.reader;
  url.password = 'reader';
  const slower = shop.source(relation('slower'), {
    connectionString: url.href,
    primaryUrl: shop.url,
  });
  const { interval } = caseRequest();
  // One moment with a row: nothing is shorter.
  const moment = { start: interval.start + 601_000, end: interval.start + 601_001 };
  for (let attempt = 1; attempt <= 2; attempt += 1) {
    const reading = slower.open(caseRequest({ interval: moment }), never).then(countOf);
    await expect(whileVacuumed(reading)).rejects.toMatchObject(conflict);
  }
});
