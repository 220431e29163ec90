import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';
import { until } from '../../support/until.ts';

let echo: Server;
let proxy: TcpProxy;
const sockets: Socket[] = [];

beforeEach(async () => {
  echo = createServer((socket) => {
    socket.on('error', () => {});
    socket.pipe(socket);
  });
  echo.listen(0, '127.0.0.1');
  await once(echo, 'listening');
  proxy = await startTcpProxy({ target: { port: (echo.address() as AddressInfo).port } });
});

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await proxy.close();
  echo.close();
});

interface Client {
  socket: Socket;
  received: () => string;
  failure: () => string | undefined;
  closed: () => boolean;
}

function open(): Client {
  const socket = connect(proxy.port, proxy.host);
  sockets.push(socket);
  let text = '';
  let code: string | undefined;
  let closed = false;
  socket.on('data', (chunk) => {
    text += chunk;
  });
  socket.on('error', (error: NodeJS.ErrnoException) => {
    code = error.code;
  });
  socket.on('close', () => {
    closed = true;
  });
  return { socket, received: () => text, failure: () => code, closed: () => closed };
}

async function ping(client: Client, word = 'ping'): Promise<void> {
  const before = client.received();
  client.socket.write(word);
  await until(() => client.received() === before + word, { message: `the echo of ${word}` });
}

describe('the TCP proxy', () => {
  test('carries bytes both ways, and a half-close', async () => {
    const client = open();
    await ping(client);
    client.socket.end('bye');
    await until(client.closed, { message: 'the close to come back' });
    expect(client.received()).toBe('pingbye');
    expect(client.failure()).toBeUndefined();
    await until(() => proxy.connections === 0);
  });

  test('carries a few megabytes unchanged', async () => {
    const client = open();
    const text = Array.from({ length: 400_000 }, (_, line) => `${line}\n`).join('');
    client.socket.end(text);
    await until(client.closed, { message: 'all bytes to come back' });
    expect(client.received() === text).toBe(true);
  });

  test('cut resets what is open and takes new connections', async () => {
    const client = open();
    await ping(client);
    proxy.cut();
    await until(client.closed);
    expect(client.failure()).toBe('ECONNRESET');
    await ping(open());
  });

  test('refuse turns new connections away, keeps the open ones, and accept ends it', async () => {
    const client = open();
    await ping(client);
    await proxy.refuse();
    const late = open();
    await until(late.closed);
    expect(late.failure()).toBe('ECONNREFUSED');
    await ping(client, 'still');
    await proxy.accept();
    await ping(open());
  });

  test('pause moves no byte but keeps connections open, resume delivers what was held', async () => {
    const client = open();
    await ping(client);
    proxy.pause();
    client.socket.write('held');
    // A second connection that is accepted shows that the event loop had a turn meanwhile.
    const other = open();
    await until(() => proxy.connections === 2);
    expect(client.received()).toBe('ping');
    expect(client.closed()).toBe(false);
    proxy.resume();
    await until(() => client.received() === 'pingheld');
    await ping(other);
  });

  test('delay holds data back for at least the time it was given', async () => {
    const client = open();
    await ping(client);
    proxy.delay(60);
    const started = performance.now();
    await ping(client, 'slow');
    expect(performance.now() - started).toBeGreaterThanOrEqual(110);
    proxy.delay(0);
    await ping(client);
  });

  test('resetAfterBytes lets exactly so many bytes through, then resets once', async () => {
    const client = open();
    await ping(client);
    let seen = '';
    echo.once('connection', (socket) => {
      socket.on('data', (chunk) => {
        seen += chunk;
      });
    });
    const victim = open();
    await until(() => proxy.connections === 2);
    proxy.resetAfterBytes(3);
    victim.socket.write('abcdef');
    await until(victim.closed);
    expect(victim.failure()).toBe('ECONNRESET');
    expect(seen.length).toBeLessThanOrEqual(3);
    await ping(client, 'after');
  });
});
