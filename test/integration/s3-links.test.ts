import { connect } from 'node:net';
import { randomBytes } from 'node:crypto';
import { Agent as HttpsAgent } from 'node:https';
import { createServer as createTlsServer } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { createOutboundAgents } from '../../src/foundation/security/outbound-filter.ts';
import { codeOf, contextWith, owner } from '../conformance/destination-suite.ts';
import { type S3Server, startS3Server } from '../support/s3-server/server.ts';
import { listen } from '../support/free-port.ts';
import {
  assumed,
  issued,
  serverDefaults,
  start,
  startSts,
  upload,
} from '../support/s3-destination.ts';
import { tlsFiles } from '../support/tls-certificates.ts';
import { inTest } from '../support/use-stage.ts';
import type { DestinationContext, PutLease } from '../../src/rows/destinations/destination.ts';
import { s3Definition } from '../../src/rows/destinations/s3/definition.ts';

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
  const server = await inTest(startS3Server(serverDefaults));
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
  expect(server.objects('exports').map((object) => object.key)).toEqual(['a.jsonl']);
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

/** A store whose keys are issued by a role for a session of this many seconds. */
async function startWithSession(seconds: number) {
  const expiration = new Date(Date.now() + seconds * 1_000).toISOString();
  const { endpoint: stsEndpoint } = await startSts(() => assumed(expiration));
  const started = await start({
    config: { role_arn: 'arn:aws:iam::123456789012:role/exports' },
    context: { stsEndpoint },
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

describe('a store behind TLS', () => {
  const { caCertificate: ca, serverCertificate: cert, serverKey: key } = tlsFiles;
  const credentials = { accessKeyId: 'AKIATLS0000000000001', secretAccessKey: 'tls-secret' };
  const partBytes = 256 * 1024;
  let server: S3Server;
  let port: number;
  /** What came through the TLS, without it. */
  let heard = '';

  const front = createTlsServer({ key, cert }, (secure) => {
    const plain = connect(server.port, '127.0.0.1');
    secure.on('data', (data) => {
      heard += data.toString('latin1');
    });
    secure.pipe(plain).pipe(secure);
    secure.on('error', () => plain.destroy());
    plain.on('error', () => secure.destroy());
  });

  beforeAll(async () => {
    server = await startS3Server({ buckets: ['exports'], credentials, minPartBytes: partBytes });
    port = await listen(front);
  });
  afterAll(async () => {
    front.close();
    await server.close();
  });

  function open(context: Partial<DestinationContext>) {
    const config = {
      bucket_name: 'exports',
      region: 'us-east-1',
      aws_access_key_id: credentials.accessKeyId,
      aws_secret_access_key: credentials.secretAccessKey,
      endpoint_url: `https://localhost:${port}`,
    };
    return s3Definition.open(config, contextWith({ partBytes, ...context }), owner);
  }

  it('sends parts over TLS guarded by their CRC32, without hashing them for the signature', async () => {
    const httpsAgent = new HttpsAgent({ keepAlive: true, ca });
    const destination = open({ httpsAgent });
    const bytes = randomBytes(Math.round(partBytes * 2.5));
    await upload({ destination }, bytes, 'a');
    expect(server.objects('exports')[0]?.body().equals(bytes)).toBe(true);
    expect(heard.match(/x-amz-content-sha256: UNSIGNED-PAYLOAD/gi)).toHaveLength(3);
    expect(heard.match(/x-amz-checksum-crc32: /gi)).toHaveLength(3);
    await destination.commitManifest('m', Buffer.from('{}'), null);
    expect(heard.match(/UNSIGNED-PAYLOAD/g)).toHaveLength(3);
    httpsAgent.destroy();
  });

  it('looks at the lease once the handshake is over, and on a connection that is open already', async () => {
    let isSecure = false;
    class Agent extends HttpsAgent {
      override createConnection(...given: Parameters<HttpsAgent['createConnection']>) {
        const socket = super.createConnection(...given);
        socket?.once('secureConnect', () => {
          isSecure = true;
        });
        return socket;
      }
    }
    const httpsAgent = new Agent({ keepAlive: true, ca });
    const destination = open({ httpsAgent });
    const extend = async () => {};
    const ends = { holds: () => !isSecure, extend };
    const put = (key: string, lease: PutLease) =>
      destination.commitManifest(key, Buffer.from('{}'), null, { lease });
    expect(await codeOf(put('late', ends))).toBe('run.lease_lost');
    const holds = { holds: () => isSecure, extend };
    await put('in-time', holds);
    expect(await codeOf(put('late', ends))).toBe('run.lease_lost');
    await put('in-time-too', holds);
    expect(heard).toContain('PUT /exports/in-time-too');
    expect(heard).not.toContain('PUT /exports/late');
    httpsAgent.destroy();
  });

  it('names a certificate that is not to be trusted as a fault of the config', async () => {
    const destination = open({});
    const steps = await destination.test(AbortSignal.timeout(10_000));
    expect(steps.at(-1)).toMatchObject({ step: 'address', passed: false });
    expect(steps.at(-1)?.error).toMatch(
      /certificate_refused.*UNABLE_TO_VERIFY_LEAF_SIGNATURE.*NODE_EXTRA_CA_CERTS/,
    );
  });
});
