import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';
import { SMTPServer } from 'smtp-server';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startApiUnderTest, useApi } from '../../support/api-under-test.ts';
import { exportBody, s3 } from '../../support/batch-export-bodies.ts';
import { runCli } from '../../support/cli.ts';
import { startConnectProxy } from '../../support/connect-proxy.ts';
import { createEmptyDatabase } from '../../support/database.ts';
import { projectRoot, startSluice } from '../../support/processes.ts';
import { ownRedisAvailable, startOwnRedis } from '../../support/redis.ts';
import { documentedAcl, startRedisWithAcl } from '../../support/redis-acl.ts';
import { startS3Server } from '../../support/s3-server/server.ts';
import { createKey } from '../../support/tenants.ts';
import { assumed, issued, startSts } from '../../support/s3-destination.ts';
import { inTest, listenInTest } from '../../support/use-stage.ts';
import { atNight } from '../../support/nightly.ts';

const api = useApi();

interface Check {
  readonly check: string;
  readonly result: string;
  readonly detail: string;
}

async function doctor(env: Readonly<Record<string, string>>) {
  const { code, out, err } = await runCli(['doctor', '--json'], { env });
  const checks: Check[] = JSON.parse(out);
  const of = (name: string) => checks.find(({ check }) => check === name);
  /** The result of a check, and its words. */
  const said = (name: string) => `${of(name)?.result}: ${of(name)?.detail}`;
  return { code, err, checks, of, said };
}

/** A mail server at which `canary` is the password of everyone. @returns its port */
async function startMailServer(): Promise<number> {
  const mail = new SMTPServer({
    disabledCommands: ['STARTTLS'],
    allowInsecureAuth: true,
    onAuth({ password }, _session, callback) {
      if (password === 'canary') callback(null, { user: 'sluice' });
      else callback(new Error('who are\nyou?'));
    },
  });
  return listenInTest(mail.server);
}

atNight(
  'a mail server must accept the login, not only the connection',
  async () => {
    const silent = await listenInTest(createServer());
    const mail = async (url: string, sender: object = { MAIL_FROM: 'sluice@example.com' }) =>
      (await doctor({ DATABASE_URL: api.databaseUrl, SMTP_URL: url, ...sender })).said('mail');
    const port = await startMailServer();
    expect(await mail(`smtp://sluice:canary@127.0.0.1:${port}`)).toMatch(/^ok: /);
    const refused = await mail(`smtp://sluice:wrong-canary@127.0.0.1:${port}`);
    expect(refused).toMatch(/^failed: SMTP_URL: refused: .*who are.*Correct the address, the user/);
    expect(refused).not.toContain('wrong-canary');
    expect(await mail(`smtp://127.0.0.1:${silent}`)).toMatch(/^failed: SMTP_URL: unreachable: /);
    expect(await mail(`smtp://127.0.0.1:${port}`, {})).toMatch(
      /^failed: .*SMTP_URL needs MAIL_FROM/,
    );
  },
  60_000,
);

atNight(
  'buckets, roles and the mail server are tried through the proxy',
  async () => {
    const store = await inTest(startS3Server({ buckets: ['exports'], credentials: issued }));
    const sts = await startSts(() => assumed());
    const known: Record<string, number> = {
      's3.invalid:9000': store.port,
      'sts.invalid:80': Number(new URL(sts.endpoint).port),
      'mail.invalid:25': await startMailServer(),
    };
    const starting = startConnectProxy((target, login) => {
      if (login !== `Basic ${Buffer.from('me:s3cret').toString('base64')}`) return { refused: 407 };
      return known[target] ?? { refused: 403 };
    });
    const proxy = await inTest(starting);
    const own = await inTest(startApiUnderTest());
    const env = {
      ...{ DATABASE_URL: own.databaseUrl, STS_ENDPOINT: 'http://sts.invalid' },
      ...{ SMTP_URL: 'smtp://sluice:canary@mail.invalid:25', MAIL_FROM: 'sluice@example.com' },
      HTTPS_PROXY: `http://me:s3cret@127.0.0.1:${proxy.port}`,
      HTTP_PROXY: `http://me:s3cret@127.0.0.1:${proxy.port}`,
    };
    const body = exportBody({
      destination: s3({
        ...{ bucket_name: 'exports', endpoint_url: 'http://s3.invalid:9000' },
        role_arn: 'arn:aws:iam::123456789012:role/exports',
      }),
    });
    await own.create(body);
    // The command has no key of this API.
    await own.sql`update batch_exports set destination_secrets = null,
            destination_config = destination_config || '{"aws_access_key_id":"AKIAX","aws_secret_access_key":"x"}'`;
    const { checks, of } = await doctor(env);
    expect([of('S3')?.result, of('mail')?.result]).toEqual(['ok', 'ok']);
    expect(new Set(proxy.asked.map(({ target }) => target))).toEqual(new Set(Object.keys(known)));
    expect(JSON.stringify(checks)).not.toMatch(/s3cret|canary/i);
    const gone = await doctor({ ...env, HTTPS_PROXY: 'http://127.0.0.1:1' });
    expect(gone.of('mail')?.detail).toContain('It is reached through HTTPS_PROXY.');
  },
  60_000,
);

atNight(
  'it names the places, and the exports of a place, whose credentials were not tried',
  async () => {
    const own = await inTest(startApiUnderTest());
    const buckets = ['shared', 'shared', ...Array.from({ length: 11 }, (_, n) => `bucket-${n}`)];
    for (const bucket_name of buckets) {
      const destination = s3({ bucket_name, endpoint_url: 'http://127.0.0.1:1' });
      await own.create({ name: `to ${bucket_name}`, destination });
    }
    // The command has no key of this API.
    await own.sql`update batch_exports set destination_secrets = null,
            destination_config = destination_config || '{"aws_access_key_id":"AKIAX","aws_secret_access_key":"x"}'`;
    const { checks } = await doctor({
      DATABASE_URL: own.databaseUrl,
      ALLOWED_PRIVATE_ENDPOINTS: '127.0.0.1',
    });
    const stores = checks.filter(({ check }) => check === 'S3');
    expect(stores).toHaveLength(10);
    expect(stores[0]?.detail).toMatch(
      /shared.*[^.]\. Not tried: the credentials of 1 other export there$/,
    );
    expect(stores[1]?.detail).not.toContain('Not tried');
    expect(checks).toContainEqual({
      ...{ check: 'destinations', result: 'warning' },
      detail: expect.stringMatching(/^2 more places of destinations were not tried\./),
    });
  },
  60_000,
);

test('an installation that is well', async () => {
  const { code, checks } = await doctor({ DATABASE_URL: api.databaseUrl });
  expect(checks.map(({ check, result }) => [check, result])).toEqual([
    ['database', 'ok'],
    ['migrations', 'ok'],
    ['queue', 'ok'],
    ['clock', 'ok'],
    ['TMPDIR', 'ok'],
    ['era', 'ok'],
    ['signing key', 'ok'],
    ['workers', 'warning'],
    ['work', 'ok'],
    // This database has no table of events, and no export needs it.
    ['model events', 'warning'],
    ['connections', 'ok'],
  ]);
  expect(code).toBe(0);
});

test('a database that is unreachable, one that refuses, and one that was not migrated', async () => {
  const unreachable = await doctor({ DATABASE_URL: 'postgres://x@127.0.0.1:1/none' });
  expect(unreachable.code).toBe(1);
  expect(unreachable.said('database')).toMatch(
    /^failed: DATABASE_URL: unreachable: .*Start it, or correct the address\.$/,
  );
  const missing = new URL(api.databaseUrl);
  missing.pathname = '/no_such_database';
  expect((await doctor({ DATABASE_URL: missing.href })).of('database')?.detail).toBe(
    'DATABASE_URL: the database does not exist (3D000); create it, or correct the address.',
  );
  const empty = await inTest(createEmptyDatabase());
  const unmigrated = await doctor({ DATABASE_URL: empty.url });
  expect(unmigrated.said('migrations')).toMatch(
    /^failed: .*lacks 0001_release\b.*Run `sluice migrate`/,
  );
  expect(unmigrated.err).toBe('1 of 5 checks failed.\n');
});

describe.skipIf(!ownRedisAvailable())('with the queue in Redis', () => {
  test('a right that its user lacks', async () => {
    const redis = await inTest(startRedisWithAcl([...documentedAcl, '-info']));
    const env = { DATABASE_URL: api.databaseUrl, REDIS_URL: redis.limitedUrl };
    expect((await doctor(env)).said('queue')).toMatch(
      /^failed: .*does not allow its user the command INFO\..*needs\.$/,
    );
  });

  atNight('a policy that evicts jobs, and a Redis that is unreachable', async () => {
    const redis = await inTest(startOwnRedis());
    const env = { DATABASE_URL: api.databaseUrl, REDIS_URL: redis.url };
    expect((await doctor(env)).said('queue')).toMatch(/^ok: /);
    const set = ['-p', String(redis.port), 'config', 'set', 'maxmemory-policy', 'allkeys-lru'];
    await promisify(execFile)('redis-cli', set);
    expect((await doctor(env)).said('queue')).toBe(
      'failed: Redis may evict jobs: set maxmemory-policy to noeviction (now: allkeys-lru).',
    );
    await redis.kill();
    const { code, of } = await doctor(env);
    expect([code, of('queue')?.detail]).toEqual([
      1,
      expect.stringMatching(/^REDIS_URL: unreachable: .*ECONNREFUSED.*\. Start it/),
    ]);
  });
});

atNight('a machine whose clock is wrong', async () => {
  const preload = `--import=${path.join(projectRoot, 'test/support/shifted-clock.mjs')}`;
  const child = startSluice('clients/cli/sluice.js', ['doctor'], {
    env: { DATABASE_URL: api.databaseUrl, CLOCK_SHIFT_MS: '120000', NODE_OPTIONS: preload },
  });
  expect((await child.waitForExit()).code).toBe(1);
  expect(child.output()).toMatch(
    /^clock +failed +This machine is 1(19|20) s ahead of the database\. Synchronize both with NTP\.$/m,
  );
});

test('the API at SLUICE_URL, from a machine without a database', async () => {
  const env = { SLUICE_URL: api.baseUrl, SLUICE_KEY: 'wrong', SLUICE_DATA_DIR: '/nonexistent' };
  const { code, checks } = await doctor(env);
  expect(code).toBe(1);
  expect(checks).toEqual([
    { check: 'API', result: 'ok', detail: api.baseUrl },
    expect.objectContaining({ check: 'API key', result: 'failed' }),
  ]);
  const { key } = await createKey(api.db, { organizationId: null, scopes: ['operator:read'] });
  const operator = await doctor({ ...env, SLUICE_KEY: key });
  expect([operator.code, operator.checks.at(-1)]).toEqual([
    0,
    { check: 'API key', result: 'ok', detail: expect.stringMatching(/: operator:read$/) },
  ]);
  const none = await doctor({ SLUICE_DATA_DIR: '/nonexistent' });
  expect(none.checks).toHaveLength(1);
  expect(none.said('database')).toMatch(/^failed: No database: set DATABASE_URL/);
});

test('without a worker the doctor fails, because exports wait; a database from a dump is held', async () => {
  const own = await inTest(startApiUnderTest());
  const workers = async () => (await doctor({ DATABASE_URL: own.databaseUrl })).said('workers');
  expect(await workers()).toBe('warning: No worker has reported in the last minute. Start two.');
  await own.create({ destination: { type: 'NoOp', config: {} } });
  expect(await workers()).toBe(
    'failed: No worker has reported in the last minute: 1 export waits. Start one.',
  );
  expect((await runCli(['doctor'], { env: { DATABASE_URL: own.databaseUrl } })).code).toBe(1);
  await own.sql`insert into workers (id, capacity, small_capacity) values ('one', 4, 4)`;
  expect(await workers()).toBe('ok: 1 reported in the last minute');
  await own.sql`update workers set heartbeat_at = now() - interval '2 minutes'`;
  expect(await workers()).toMatch(/^failed: /);
  const era = async () => (await doctor({ DATABASE_URL: own.databaseUrl })).said('era');
  expect(await era()).toBe('ok: accepted');
  await own.sql`update eras set system_identifier = '1'`;
  expect(await era()).toMatch(/^failed: .*restored from a dump, or copied.*`sluice eras accept`/);
});

atNight(
  'the default settings fit a server with its defaults, and a lower limit is a warning',
  async () => {
    const own = await startApiUnderTest();
    const url = new URL(own.databaseUrl);
    const { admin } = await createEmptyDatabase();
    const role = `few_${randomBytes(6).toString('hex')}`;
    await admin.query(`create role ${role} login password 'x' in role "${url.username}"`);
    onTestFinished(async () => {
      await admin.query(`drop role ${role}`);
      await own.stop();
    });
    [url.username, url.password] = [role, 'x'];
    for (const id of ['one', 'two']) {
      await own.db.query(
        `insert into workers (id, capacity, small_capacity) values ('${id}', 4, 4)`,
      );
    }
    const limitTo = (most: number) => admin.query(`alter role ${role} connection limit ${most}`);
    const connections = async (env: Record<string, string>) =>
      (await doctor(env)).said('connections');
    await limitTo(97);
    expect(await connections({ DATABASE_URL: url.href })).toBe('ok: the servers have room for all');
    await limitTo(92);
    expect(await connections({ DATABASE_URL: url.href })).toBe(
      'warning: An API and 2 workers open up to 93 connections (36 to DATABASE_URL, 57 to SOURCE_DATABASE_URL), ' +
        `and the role "${role}" (CONNECTION LIMIT 92) has room for 92. With fewer everything becomes slow: ` +
        `raise it (ALTER ROLE "${role}" CONNECTION LIMIT), or lower DATABASE_POOL_SIZE, WORKER_CONCURRENCY or WORKER_SMALL_RUNS.`,
    );
    const away = { SOURCE_DATABASE_URL: 'postgres://x@127.0.0.1:1/none' };
    expect(await connections({ DATABASE_URL: own.databaseUrl, ...away })).toBe(
      'warning: SOURCE_DATABASE_URL: its limits could not be read, so nothing was compared with them.',
    );
  },
);
