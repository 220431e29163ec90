import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { answerOf, post } from '../../../src/service/notifications/sender.ts';
import { signatureHeaders } from '../../../src/service/notifications/sender.ts';
import { listenInTest } from '../../support/use-stage.ts';

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
  const port = await listenInTest(server);
  const agents = { httpAgent: new HttpAgent(), httpsAgent: new HttpsAgent() };
  const order = { url: new URL(`http://127.0.0.1:${port}/`), body: '{}', headers: {}, tenant: 't' };
  const error = await post(agents, order, 20_000).catch((caught: unknown) => caught);
  expect(answerOf(error)).toBe('invalid_answer');
  expect(sent).toBeLessThan(1_000);
});

// The example of the Standard Webhooks libraries.
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const signed = {
  id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  timestamp: 1_614_265_330,
  body: '{"test": 2432232314}',
};

test('signs as Standard Webhooks does', () => {
  expect(signatureHeaders(signed, [secret])).toEqual({
    'webhook-id': signed.id,
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  });
});

test('signs by each secret', () => {
  const other = 'whsec_bm90IGEgcmVhbCBzZWNyZXQ=';
  const signatureOf = (...secrets: string[]) =>
    signatureHeaders(signed, secrets)['webhook-signature'];
  expect(signatureOf(secret, other)).toBe(`${signatureOf(secret)} ${signatureOf(other)}`);
});
