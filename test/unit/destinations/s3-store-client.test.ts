/** Where requests go, and the time that they are signed with if the clocks of host and store differ. */

import { GetObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { expect, test } from 'vitest';
import { queryString } from '../../../src/rows/destinations/s3/request-handler.ts';
import { openStoreClient } from '../../../src/rows/destinations/s3/store-client.ts';

const keys = { accessKeyId: 'AKID', secretAccessKey: 'secret' };

/** Sends two requests. @returns how many years the second one was signed ahead of our clock */
async function yearsAhead(date: string): Promise<number> {
  const signed: string[] = [];
  const client = openStoreClient({
    bucket: 'b',
    sdk: { region: 'us-east-1', endpoint: 'http://127.0.0.1:1', forcePathStyle: true },
    keys,
    send: async ({ headers }) => {
      signed.push(headers['x-amz-date'] ?? '');
      return { statusCode: 200, reason: 'OK', headers: { date }, body: Buffer.alloc(0) };
    },
  });
  for (let sent = 0; sent < 2; sent += 1) await client.send({ method: 'GET', key: 'a' }, {});
  const [first = '', second = ''] = signed;
  expect(second).toMatch(/^\d{8}T\d{6}Z$/);
  return Number(second.slice(0, 4)) - Number(first.slice(0, 4));
}

test('the time of a store is adopted, unless no signature can have it', async () => {
  const later = new Date();
  later.setUTCFullYear(later.getUTCFullYear() + 3);
  expect(await yearsAhead(later.toUTCString())).toBe(3);
  expect(await yearsAhead('Sat, 13 Sep 275760 00:00:00 GMT')).toBe(0);
  expect(await yearsAhead('Fri, 31 Dec -000001 00:00:00 GMT')).toBe(0);
  expect(await yearsAhead('Mon, 01 Jan 0900 00:00:00 GMT')).toBe(0);
  expect(await yearsAhead('no date')).toBe(0);
});

const odd = [
  ...[
    'a b',
    'ä/é/日本/😀',
    '+',
    '%',
    '%2F%41',
    '~',
    '*',
    "(it's)!",
    'a;b:c@d&e=f$g,h',
    'a?b#c',
    '[x]|^`{y}',
  ],
  ...['"<>\\', 'a. b/ /c', '.a/b./c..d', "a'b", ' a ', '=', '&amp;'],
];

test.each([
  ['of AWS, by its path', 'exports', 'eu-central-1', undefined, true],
  ['of AWS, by its host', 'exports', 'eu-central-1', undefined, false],
  ['of AWS, with dots', 'ex.ports', 'us-gov-west-1', undefined, false],
  ['of AWS in China', 'exports', 'cn-north-1', undefined, false],
  ['of another store', 'exports', 'auto', 'https://s3.example.com', true],
  ['of another store, by its host', 'exports', 'auto', 'https://s3.example.com:8443', false],
  ['below a path', 'exports', 'auto', 'http://s3.example.com:9000/a b/ü/', true],
  ['below a path, by its host', 'exports', 'auto', 'http://s3.example.com/base', false],
  ['at an address', 'exports', 'auto', 'http://127.0.0.1:9000', false],
  ['at an address of version 6', 'exports', 'auto', 'http://[::1]:9000/base', true],
  ['with capitals', 'Ex_Ports', 'auto', 'https://s3.example.com', false],
])(
  'a bucket %s is where the SDK looks for it, whatever the key',
  async (_, bucket, region, endpoint, forcePathStyle) => {
    const seen: Readonly<Record<string, unknown>>[] = [];
    const see = ({ protocol, hostname, port, path, query, headers }: Sent) => {
      const host = headers.host;
      seen.push({ protocol, hostname, port, path, query: queryString(query ?? {}), host });
      return { statusCode: 200, reason: 'OK', headers: {}, body: Buffer.alloc(0) };
    };
    const sdk = {
      ...{ region, forcePathStyle, credentials: { ...keys } },
      ...(endpoint === undefined ? {} : { endpoint }),
    };
    const client = openStoreClient({ bucket, sdk, keys, send: async (request) => see(request) });
    const theirs = new S3Client({
      ...sdk,
      requestHandler: {
        handle: async (request: Sent) => {
          see(request);
          throw new Error('seen');
        },
      },
    });
    for (const key of odd) {
      seen.length = 0;
      await client.send({ method: 'GET', key, query: { 'x-id': 'GetObject' } }, {});
      await theirs.send(new GetObjectCommand({ Bucket: bucket, Key: key })).catch(() => {});
      const [own, other] = seen;
      expect(own?.path, key).toContain('/');
      expect(own, key).toEqual(other);
    }
  },
);

interface Sent {
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number;
  readonly path: string;
  readonly query?: Record<string, string | readonly string[] | null>;
  readonly headers: Record<string, string>;
}

test('a request names and signs the token of a session, and each header that it is sent with', async () => {
  const sent: Readonly<Record<string, string>>[] = [];
  const client = openStoreClient({
    bucket: 'b',
    sdk: { region: 'us-east-1', endpoint: 'http://127.0.0.1:1', forcePathStyle: true },
    keys: { ...keys, sessionToken: 'of a role' },
    send: async ({ headers }) => {
      sent.push(headers);
      return { statusCode: 200, reason: 'OK', headers: {}, body: Buffer.alloc(0) };
    },
  });
  await client.send({ method: 'PUT', key: 'a', headers: { 'if-match': '"1"' } }, {});
  const [{ authorization = '', ...headers } = {}] = sent;
  expect(headers['x-amz-security-token']).toBe('of a role');
  expect(authorization).toContain(
    'SignedHeaders=host;if-match;x-amz-content-sha256;x-amz-date;x-amz-security-token,',
  );
});
