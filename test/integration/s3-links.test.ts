import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { createOutboundAgents } from '../../src/foundation/security/outbound-filter.ts';
import { codeOf } from '../conformance/destination-suite.ts';
import { startS3Server } from '../support/s3-server/server.ts';
import { closers, serverDefaults, start, upload } from '../support/s3-under-test.ts';

const bytes = Buffer.from('{"id":1}\n');

type Started = Awaited<ReturnType<typeof start>>;

/** A link to the object, made as the API makes it: after a look at it. */
async function linkTo({ destination }: Started, key: string, seconds = 60) {
  const signal = AbortSignal.timeout(10_000);
  await destination.statFile(key, signal);
  const link = await destination.linkFile?.(key, { seconds, name: 'a.jsonl', signal });
  if (link === undefined) throw new Error('S3 has links');
  return link;
}

const oddKeys = [
  'a b+c&d=e?f#g%20h/ü=日本/(1)!\'*".jsonl',
  'country=a%2Fb/2024-03-01T00:00:00Z-2024-03-01T01:00:00Z.v12-2.jsonl',
  '//twice//a.jsonl',
];
test.each(oddKeys)('a link reads the object, whatever its key: %s', async (key) => {
  const started = await start();
  await upload(started, bytes, key);
  const { url } = await linkTo(started, key);
  const answer = await fetch(url);
  expect([answer.status, await answer.text()]).toEqual([200, bytes.toString()]);
  expect(answer.headers.get('content-disposition')).toBe('attachment; filename="a.jsonl"');
  // Only this object, and only to read it.
  const other = new URL(url);
  other.pathname = other.pathname.replace(/jsonl$/, 'csv');
  expect((await fetch(other)).status).toBe(403);
  expect((await fetch(url, { method: 'DELETE' })).status).toBe(403);
  expect(started.server.objects('exports')).toHaveLength(1);
});

test('a link has the bucket in its host if the config says so, and names the owner of the bucket', async () => {
  const outbound = createOutboundAgents(['*.s3.localhost'], (_host, lookup, answer) =>
    lookup.all ? answer(null, [{ address: '127.0.0.1', family: 4 }]) : answer(null, '127.0.0.1', 4),
  );
  const server = await startS3Server(serverDefaults);
  closers.push(() => server.close());
  const started = await start({
    config: {
      use_virtual_style_addressing: true,
      endpoint_url: `http://s3.localhost:${server.port}`,
      expected_bucket_owner: '123456789012',
    },
    context: outbound,
  });
  await upload(started, bytes);
  const { url } = await linkTo(started, 'a.jsonl');
  const { host, searchParams } = new URL(url);
  expect(host).toBe(`exports.s3.localhost:${server.port}`);
  expect(searchParams.get('x-amz-expected-bucket-owner')).toBe('123456789012');
});

test('a link ends by the clock of the store, also if ours is minutes off', async () => {
  let now = Date.now() + 4 * 60_000;
  const started = await start({ server: { clock: { now: () => now } } });
  await upload(started, bytes);
  const { url, expiresAt } = await linkTo(started, 'a.jsonl', 30);
  expect(Math.abs(expiresAt - (Date.now() + 30_000))).toBeLessThan(5_000);
  expect((await fetch(url)).status).toBe(200);
  now += 32_000;
  const late = await fetch(url);
  expect([late.status, await late.text()]).toEqual([403, expect.stringContaining('has expired')]);
});

const issued = {
  accessKeyId: 'ASIACANARY0000000001',
  secretAccessKey: 'issued-secret',
  sessionToken: 'issued-token/+=',
};

/** A store whose keys are issued by a role for a session of this many seconds. */
async function startWithSession(seconds: number) {
  const expiration = new Date(Date.now() + seconds * 1_000).toISOString();
  const sts = createServer((request, response) => {
    request.resume().on('end', () =>
      response
        .writeHead(200, { 'content-type': 'text/xml' })
        .end(`<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
          <AccessKeyId>${issued.accessKeyId}</AccessKeyId><SecretAccessKey>${issued.secretAccessKey}</SecretAccessKey>
          <SessionToken>${issued.sessionToken}</SessionToken><Expiration>${expiration}</Expiration>
          </Credentials></AssumeRoleResult></AssumeRoleResponse>`),
    );
  });
  await new Promise<void>((resolve) => sts.listen(0, '127.0.0.1', resolve));
  closers.push(() => sts.close());
  const started = await start({
    config: { role_arn: 'arn:aws:iam::123456789012:role/exports' },
    context: { stsEndpoint: `http://127.0.0.1:${(sts.address() as AddressInfo).port}` },
    server: { credentials: issued },
  });
  await upload(started, bytes);
  return started;
}

test('a link by a role ends with its session, and has the token but no secret', async () => {
  const started = await startWithSession(100);
  const { url, expiresAt } = await linkTo(started, 'a.jsonl', 3_600);
  expect((expiresAt - Date.now()) / 1_000).toBeLessThanOrEqual(100);
  expect((expiresAt - Date.now()) / 1_000).toBeGreaterThan(80);
  expect((await fetch(url)).status).toBe(200);
  expect(url).not.toContain(issued.secretAccessKey);
});

test('a session that is over gives no link', async () => {
  const started = await startWithSession(-100);
  expect(await codeOf(linkTo(started, 'a.jsonl'))).toBe('destination.expired_credentials');
});
