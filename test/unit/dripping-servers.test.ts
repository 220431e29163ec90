/** Servers that take a connection and are never silent, and never done: the side that opened it must give it up in time. */

import type { Redis } from 'ioredis';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ConnectionLimit } from '../../src/rows/sources/postgres/connection-limit.ts';
import { connect, destroyConnection } from '../../src/rows/sources/postgres/connection.ts';
import { checkMailServer, openMailer } from '../../src/service/notifications/mail.ts';
import { openRedis } from '../../src/state/queue/redis.ts';
import { becomeOwner } from '../../src/state/embedded-postgres/start.ts';
import { startConnectProxy } from '../support/connect-proxy.ts';
import { startDrippingServer } from '../support/dripping-server.ts';
import { until } from '../support/until.ts';

const limitMs = 500;
const never = new AbortController().signal;

async function startDripping(...given: Parameters<typeof startDrippingServer>) {
  const server = await startDrippingServer(...given);
  onTestFinished(server.stop);
  return server;
}

/** An answer of PostgreSQL: its kind, and its body. */
function message(kind: string, ...words: readonly number[]): Buffer {
  const bytes = Buffer.alloc(5 + 4 * words.length);
  bytes.write(kind);
  bytes.writeInt32BE(4 + 4 * words.length, 1);
  for (const [at, word] of words.entries()) bytes.writeInt32BE(word, 5 + 4 * at);
  return bytes;
}

test('a cancel request that is never taken gives its place back', async () => {
  // It lets the session in, and drips on the connection of the request.
  const letIn = [message('R', 0), message('K', 17, 4), Buffer.from('Z\0\0\0\x05I')];
  const { port, closed } = await startDripping((socket, nth, drip) => {
    if (nth > 0) return drip();
    socket.once('data', () => socket.write(Buffer.concat(letIn)));
  });
  const connections = new ConnectionLimit(1);
  const connectionString = `postgres://reader:secret@127.0.0.1:${port}/rows`;
  const client = await connect(
    { connectionString, applicationName: 'test', connectTimeoutMs: 5_000, connections },
    never,
  );
  destroyConnection(client, limitMs);
  const leave = await connections.enter(never);
  leave();
  expect(closed).toHaveLength(2);
  await Promise.all(closed);
});

describe('a mail server that drips the answer to EHLO', () => {
  const start = () =>
    startDripping((socket, _, drip) => {
      socket.write('220 mail.example\r\n');
      socket.once('data', () => {
        socket.write('250-');
        drip();
      });
    });

  const mail = { to: ['you@mail.example'], subject: 'Hello', text: 'Hello', eventId: 'one' };

  test.each([
    ['a mail', 'at its address', false],
    ['a mail', 'by way of a proxy', true],
    ['a check', 'at its address', false],
    ['a check', 'by way of a proxy', true],
  ])('%s %s ends with its connection', async (what, _, hasProxy) => {
    const { port, closed } = await start();
    const proxy = await startConnectProxy(() => port);
    onTestFinished(proxy.stop);
    const server = {
      url: `smtp://127.0.0.1:${port}`,
      proxy: hasProxy ? `http://127.0.0.1:${proxy.port}` : null,
      from: 'sluice@mail.example',
    };
    const work =
      what === 'a check' ? checkMailServer(server, limitMs) : openMailer(server, limitMs)(mail);
    await expect(work).rejects.toMatchObject({ code: 'ETIMEDOUT' });
    expect(proxy.asked).toHaveLength(hasProxy ? 1 : 0);
    expect(closed).toHaveLength(1);
    await Promise.all(closed);
  });
});

test('a database that drips its login fails the start of its owner', async () => {
  const { port, closed } = await startDripping((socket, _, drip) => {
    // A parameter of 1 GiB.
    socket.write(Buffer.from([83, 64, 0, 0, 0]));
    drip();
  });
  const url = `postgres://sluice:secret@127.0.0.1:${port}/sluice`;
  await expect(becomeOwner(url, limitMs)).rejects.toThrow('timeout expired');
  await Promise.all(closed);
});

test.each([
  ['a connection', (redis: Redis) => redis],
  ['one that BullMQ makes of it', (redis: Redis) => redis.duplicate()],
])('a Redis that drips its first answer %s is opened again', async (_, of) => {
  const { port, closed } = await startDripping((socket, __, drip) => {
    socket.write('$1000000\r\n');
    drip();
  });
  const url = `redis://127.0.0.1:${port}`;
  const opened = openRedis(url, 'worker', limitMs);
  const redis = of(opened);
  if (redis !== opened) opened.disconnect();
  for (const each of [opened, redis]) each.on('error', () => {});
  onTestFinished(() => redis.disconnect());
  const first = closed.length;
  await until(() => closed.length >= first + 2, { message: 'two more connections' });
});
