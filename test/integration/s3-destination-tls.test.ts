import { randomBytes } from 'node:crypto';
import { Agent as HttpsAgent } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import { createServer } from 'node:tls';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { DestinationContext, PutLease } from '../../src/rows/destinations/destination.ts';
import { s3Definition } from '../../src/rows/destinations/s3/definition.ts';
import {
  codeOf,
  contextWith,
  options,
  owner,
  recordingJournal,
} from '../conformance/destination-suite.ts';
import { type S3Server, startS3Server } from '../support/s3-server/server.ts';

/** Made for this test and of no use elsewhere: localhost, signed by itself, 2020 to 2120. */
const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgG6nwCL7YMLhw2yRY
0llLP5cANX3ifTmauO5VUzpT7YChRANCAATWwlRB2TNUd08ql+wdNplYCzh1YShH
C8dVRZH+18vizayqF316ZDDf1HoDGfkaUfiEK0sfSkzNCsEFcPd8qiV3
-----END PRIVATE KEY-----`;
const cert = `-----BEGIN CERTIFICATE-----
MIIBYjCCAQegAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABNbCVEHZM1R3TyqX
7B02mVgLOHVhKEcLx1VFkf7Xy+LNrKoXfXpkMN/UegMZ+RpR+IQrSx9KTM0KwQVw
93yqJXejSDBGMBQGA1UdEQQNMAuCCWxvY2FsaG9zdDAPBgNVHRMBAf8EBTADAQH/
MB0GA1UdDgQWBBQ+QvXrLwJvb8SKSBiBwVu7EDkDWTAKBggqhkjOPQQDAgNJADBG
AiEAnSgSvriv/c8hm6PyVlSXLU5azQlmJ200Z60BPOnWu5ACIQCYoLULZhvf0Iix
g0qAIUPcbL6ISIHjk3+8vRFfhqB2hQ==
-----END CERTIFICATE-----`;

const credentials = { accessKeyId: 'AKIATLS0000000000001', secretAccessKey: 'tls-secret' };
const partBytes = 256 * 1024;
let server: S3Server;
let port: number;
/** What came through the TLS, without it. */
let heard = '';

const front = createServer({ key, cert }, (secure) => {
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
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
  port = (front.address() as AddressInfo).port;
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
  const httpsAgent = new HttpsAgent({ keepAlive: true, ca: cert });
  const destination = open({ httpsAgent });
  const bytes = randomBytes(Math.round(partBytes * 2.5));
  const writer = await destination.createFile(options('a'), recordingJournal().journal);
  await writer.write(bytes);
  await writer.complete();
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
  const httpsAgent = new Agent({ keepAlive: true, ca: cert });
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
    /certificate_refused.*DEPTH_ZERO_SELF_SIGNED_CERT.*NODE_EXTRA_CA_CERTS/,
  );
});
