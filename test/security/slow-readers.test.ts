import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ApiUnderTest, startApiUnderTest } from '../support/api-under-test.ts';
import { exportBody, s3 } from '../support/batch-export-bodies.ts';
import { createTenant } from '../support/tenants.ts';
import { until } from '../support/until.ts';

/** Answers that a client asks for and does not read: they wait in the memory of the process. */

let api: ApiUnderTest;
const sockets: Socket[] = [];
/** Of a page that ends after 8 MiB: more than the system's buffers of a connection take. */
let pageBytes = 0;

beforeAll(async () => {
  const answers = { perOrganization: 24 * 2 ** 20, inAll: 96 * 2 ** 20, takeMs: 2_000 };
  api = await startApiUnderTest({ answers });
  const names = Array.from({ length: 100 }, (_, n) => `${n}${'n'.repeat(190)}`);
  const destination = s3({ include_events: names, exclude_events: names });
  const answer = await api.client.post(
    `${api.project}/batch_exports/`,
    exportBody({ destination }),
  );
  expect(answer.status).toBe(201);
  await api.db.query(
    `insert into batch_exports select (jsonb_populate_record(e, jsonb_build_object('id', gen_random_uuid()))).*
       from batch_exports e, generate_series(1, 400)`,
  );
  pageBytes = (await api.client.get(path())).text.length;
  expect(pageBytes).toBeGreaterThan(7 * 2 ** 20);
});
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});
afterAll(() => api?.stop());

const path = () => `${api.project}/batch_exports/?limit=1000`;

/** Asks for a page, and reads its status line only. */
async function askWithoutReading(times = 1): Promise<{ status: number; socket: Socket }> {
  const { hostname, port } = new URL(api.baseUrl);
  const socket = connect({ port: Number(port), host: hostname });
  sockets.push(socket);
  socket.on('error', () => {});
  const head = `host: x\r\nauthorization: Bearer ${api.tenant.key}`;
  socket.write(`GET ${path()} HTTP/1.1\r\n${head}\r\n\r\n`.repeat(times));
  const first = await new Promise<string>((resolve) =>
    socket.once('readable', () => resolve(String(socket.read(12)))),
  );
  return { status: Number(first.slice(9, 12)), socket };
}

test('a client that reads none of its answers gets no more of them, while others are served', async () => {
  const asked = await Promise.all(Array.from({ length: 12 }, () => askWithoutReading()));
  const statuses = asked.map(({ status }) => status);
  expect(statuses).toContain(200);
  expect(statuses).toContain(429);
  expect(statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(8);
  const other = await createTenant(api.db);
  const others = `/api/projects/${other.projectIds[0]}/batch_exports/?limit=1000`;
  expect((await api.client.withKey(other.key).get(others)).status).toBe(200);
  // Small answers, and what changes something, still arrive.
  const { status } = await api.client.get(`${api.project}/batch_exports/?limit=1`);
  expect(status).toBe(200);
});

test('a client that does not read is disconnected, and its answers no longer count', async () => {
  // The system's buffers of a connection take about one page.
  const { socket } = await askWithoutReading(5);
  const isRefused = async () => (await api.client.get(path())).status === 429;
  await until(isRefused, { message: 'as much as is allowed waits' });
  await until(
    async () => {
      const { status, text } = await api.client.get(path());
      return status === 200 && text.length === pageBytes;
    },
    { timeoutMs: 60_000, message: 'a whole page again' },
  );
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.resume();
  await closed;
  expect(socket.bytesRead).toBeLessThan(3 * pageBytes);
});
