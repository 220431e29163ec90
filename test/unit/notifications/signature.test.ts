import { expect, test } from 'vitest';
import { signatureHeaders } from '../../../src/service/notifications/sender.ts';

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
