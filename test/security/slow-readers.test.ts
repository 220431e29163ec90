import { connect, type Socket } from 'node:net';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { usualConnections } from '../../src/service/api/connections.ts';
import { useApi } from '../support/api-under-test.ts';
import { exportBody, s3 } from '../support/batch-export-bodies.ts';
import { atNight } from '../support/nightly.ts';
import { createTenant } from '../support/tenants.ts';
import { until } from '../support/until.ts';

/** What clients make the process keep: answers that they do not read, bodies that they do not complete, connections. */

const sockets: Socket[] = [];
/** Of a page that ends before 1 MiB. */
let pageBytes = 0;
/** Pages that are more than the system's buffers of a connection take. The next one stays in the process. */
const pagesUnread = 16;

const api = useApi({ connections: { ...usualConnections, perAddress: 40, takeMs: 2_000 } });
beforeAll(async () => {
  const names = Array.from({ length: 100 }, (_, n) => `${n}${'n'.repeat(190)}`);
  const destination = s3({ include_events: names, exclude_events: names });
  await api.create({ destination });
  await api.db.query(
    `insert into batch_exports select (jsonb_populate_record(e, jsonb_build_object('id', gen_random_uuid()))).*
       from batch_exports e, generate_series(1, 400)`,
  );
  pageBytes = (await api.client.get(path())).text.length;
  expect(pageBytes).toBeGreaterThan(0.9 * 2 ** 20);
});
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

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

const isRefused = async () => (await api.client.get(path())).status === 429;

// To fill the system's buffers takes some hundred pages.
atNight(
  'a client that reads none of its answers gets no more of them, while others are served, and is disconnected',
  async () => {
    const asked = await Promise.all(
      Array.from({ length: 12 }, () => askWithoutReading(pagesUnread)),
    );
    const socket = asked[0]?.socket ?? expect.fail();
    await until(isRefused, { message: 'as much as is allowed waits' });
    const other = await createTenant(api.db);
    const others = `/api/projects/${other.projectIds[0]}/batch_exports/?limit=1000`;
    expect((await api.client.withKey(other.key).get(others)).status).toBe(200);
    // Small answers, and what changes something, still arrive.
    const { status } = await api.client.get(`${api.project}/batch_exports/?limit=1`);
    expect(status).toBe(200);
    // Its answers no longer count.
    await until(
      async () => {
        const { status, text } = await api.client.get(path());
        return status === 200 && text.length === pageBytes;
      },
      { message: 'a whole page again' },
    );
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.resume();
    await closed;
    expect(socket.bytesRead).toBeLessThan(pagesUnread * pageBytes);
  },
);

/** Sends a text on a new connection. */
function open(text: string): Socket {
  const { hostname, port } = new URL(api.baseUrl);
  const socket = connect({ port: Number(port), host: hostname });
  sockets.push(socket);
  socket.on('error', () => {});
  socket.write(text);
  return socket;
}

async function readUntil(socket: Socket, done: (text: string) => boolean): Promise<string> {
  let text = '';
  for await (const chunk of socket) {
    text += String(chunk);
    if (done(text)) break;
  }
  return text;
}

const statusesIn = (text: string) =>
  [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));

test('a pipeline is answered in its order, one request at a time', async () => {
  const paths = ['/livez', '/nowhere', '/api/me', '/livez', '/api/docs', '/livez'];
  const socket = open(paths.map((path) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`).join(''));
  const text = await readUntil(socket, (read) => statusesIn(read).length === paths.length);
  expect(statusesIn(text)).toEqual([200, 404, 401, 200, 200, 200]);
});

test.each(['/api/openapi.json', '/livez', '/api/docs/static/swagger-ui-bundle.js', '/nowhere'])(
  'more requests in a pipeline than allowed end their connection: %s',
  async (path) => {
    const socket = open(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`.repeat(1_000));
    await new Promise((resolve) => socket.once('close', resolve).resume());
    expect(socket.bytesRead).toBeLessThan(17 * 2 ** 20);
  },
);

test('a page in a pipeline is made when the page before is taken', async () => {
  const { socket } = await askWithoutReading(10);
  socket.pause();
  // Ten unread pages would be more than an organization may have.
  const { status } = await api.client.get(path());
  expect(status).toBe(200);
});

test.each([
  ['POST', '/nowhere', 404],
  ['POST', '/livez', 405],
  ['POST', '/api/projects/1/batch_exports', 401],
])('%s %s is refused before its body is read', async (method, path, status) => {
  const head = 'host: x\r\ncontent-type: application/json\r\ncontent-length: 1000000';
  const socket = open(`${method} ${path} HTTP/1.1\r\n${head}\r\n\r\n{`);
  expect(statusesIn(await readUntil(socket, (read) => read.includes('\r\n\r\n')))).toEqual([
    status,
  ]);
});

test.each(['content-length: 1048576', 'transfer-encoding: chunked'])(
  'bodies that do not end are bounded: %s',
  async (length) => {
    const head = `host: x\r\nauthorization: Bearer ${api.tenant.key}\r\ncontent-type: application/json`;
    const begin = `POST ${api.project}/batch_exports HTTP/1.1\r\n${head}\r\n${length}\r\n\r\n`;
    const begun = Array.from({ length: 30 }, () => open(begin));
    const refused = await Promise.race(
      begun.map((socket) => readUntil(socket, (read) => read.includes('\r\n\r\n'))),
    );
    expect(statusesIn(refused)).toEqual([429]);
    const other = await createTenant(api.db);
    const others = `/api/projects/${other.projectIds[0]}/batch_exports`;
    expect((await api.client.withKey(other.key).post(others, exportBody())).status).toBe(201);
    for (const socket of begun) socket.destroy();
    await until(
      async () => (await api.client.get(`${api.project}/batch_exports?limit=1`)).status === 200,
    );
  },
);

test('an address has a number of connections: a new one takes the slot of an idle one', async () => {
  const opened = Array.from({ length: 60 }, () => open(''));
  const closed = () => opened.filter(({ closed: isClosed }) => isClosed).length;
  for (const socket of opened) socket.resume();
  await until(() => closed() >= 20, { message: 'the oldest connections are closed' });
  expect((await api.client.get('/livez')).status).toBe(200);
  expect(closed()).toBeLessThan(25);
});

test('what never changes is compressed, and has a tag', async () => {
  const ask = (headers: Record<string, string>) =>
    fetch(new URL('/api/openapi.json', api.baseUrl), { headers });
  const [plain, packed] = await Promise.all([
    ask({ 'accept-encoding': 'identity' }),
    ask({ 'accept-encoding': 'gzip' }),
  ]);
  expect(plain.headers.get('content-encoding')).toBe(null);
  expect(packed.headers.get('content-encoding')).toBe('gzip');
  expect(await packed.json()).toEqual(await plain.json());
  const etag = plain.headers.get('etag') ?? '';
  expect((await ask({ 'if-none-match': etag })).status).toBe(304);
});
