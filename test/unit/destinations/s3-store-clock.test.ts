/** The time that requests are signed with, if the clocks of host and store differ. */

import { expect, test } from 'vitest';
import { openStoreClient } from '../../../src/destinations/s3/store-client.ts';

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
