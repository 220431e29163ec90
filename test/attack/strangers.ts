import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { ApiClient } from '../support/api-client.ts';
import type { Attacks } from './attacks.ts';

/** Time for which a connection stays open without being read. */
const openMs = 500;

/** Opens connections, sends a text on each, reads nothing, and asks for readiness meanwhile. */
async function hold(client: ApiClient, connections: number, text: string) {
  const { hostname, port } = new URL(client.baseUrl);
  const sockets = Array.from({ length: connections }, () => {
    const socket = connect(Number(port), hostname, () => socket.pause().write(text));
    return socket.on('error', () => {});
  });
  await delay(openMs);
  try {
    return await client.withKey(null).get('/readyz');
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}

const paths = [
  '/api/openapi.json',
  '/api/docs/static/swagger-ui-bundle.js',
  '/console/',
  '/nowhere',
];

const request = (method: string, path: string, head = '') =>
  `${method} ${path} HTTP/1.1\r\nhost: x\r\n${head}\r\n`;

/** What a stranger without a key may send: requests whose answers are not read, and ones that do not end. */
export const strangerAttacks: Attacks = {
  'G pipelined requests without a key, unread': (client, turn) =>
    hold(client, 10, request('GET', paths[turn % paths.length] ?? '/').repeat(1_000)),
  'G headers that do not end': (client) => hold(client, 50, 'GET / HTTP/1.1\r\nx: '),
  'G bodies that do not end, without a key': (client) =>
    hold(client, 50, request('POST', '/nowhere', 'content-length: 1000000\r\n')),
  'G idle connections': (client) => hold(client, 300, ''),
};
