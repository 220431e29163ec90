import { once } from 'node:events';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { type AddressInfo, createServer } from 'node:net';
import { expect, test } from 'vitest';
import { answerOf, post } from '../../../src/service/notifications/post.ts';

test('informational answers without end are cut off after ten, long before the time limit', async () => {
  let sent = 0;
  const server = createServer((socket) => {
    socket.on('error', () => {});
    const sending = setInterval(() => {
      sent += 1;
      socket.write('HTTP/1.1 102 Processing\r\n\r\n');
    }, 5);
    socket.once('close', () => clearInterval(sending));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const agents = { httpAgent: new HttpAgent(), httpsAgent: new HttpsAgent() };
  const order = { url: new URL(`http://127.0.0.1:${port}/`), body: '{}', headers: {}, tenant: 't' };
  try {
    const error = await post(agents, order, 20_000).catch((caught: unknown) => caught);
    expect(answerOf(error)).toBe('invalid_answer');
    expect(sent).toBeLessThan(1_000);
  } finally {
    server.close();
  }
});
