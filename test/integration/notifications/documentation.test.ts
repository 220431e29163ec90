import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { disableAfterDays } from '../../../src/service/use-cases/notifications/deliver.ts';
import {
  maxTargets,
  notificationTypes,
  retryDelaysMs,
} from '../../../src/foundation/domain/notification.ts';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { senderTo } from '../../support/notified.ts';
import { startReceiver } from '../../support/receiver.ts';
import { useStage } from '../../support/use-stage.ts';

type Verify = (
  secret: string,
  headers: Readonly<Record<string, string>>,
  body: string,
  nowSeconds?: number,
) => boolean;

const page = readFileSync(new URL('../../../docs/notifications.md', import.meta.url), 'utf8');

const receiver = useStage(startReceiver);
const api = useStage(() => startApiUnderTest({ notifications: senderTo([receiver]) }));
let verify: Verify;

beforeAll(async () => {
  const [, code = ''] = /```js\n(.*?)```/s.exec(page) ?? [];
  const module = `data:text/javascript,${encodeURIComponent(code)}`;
  ({ verify } = (await import(/* @vite-ignore */ module)) as { verify: Verify });
});

describe('docs/notifications.md', () => {
  test('verifies what Sluice sends, and nothing else', async () => {
    const targets = `${api.project}/notification_targets`;
    const { id, secret } = (await api.post(targets, { url: receiver.url })).body;
    await api.post(`${targets}/${id}/test`);
    const [first] = receiver.received;
    if (!first) throw new Error('nothing was received');
    const { headers, body } = first;
    expect(verify(String(secret), headers, body)).toBe(true);
    expect(verify(String(secret), headers, `${body} `)).toBe(false);
    expect(verify(String(secret), { ...headers, 'webhook-id': 'another' }, body)).toBe(false);
    expect(verify('whsec_bm90IGEgcmVhbCBzZWNyZXQ=', headers, body)).toBe(false);
    const anHourLater = Number(headers['webhook-timestamp']) + 3_600;
    expect(verify(String(secret), headers, body, anHourLater)).toBe(false);
    // During a rotation both secrets verify.
    const rotated = (await api.post(`${targets}/${id}/rotate_secret`)).body.secret;
    await api.post(`${targets}/${id}/test`);
    const second = receiver.received.at(-1);
    for (const each of [secret, rotated]) {
      expect(verify(String(each), second?.headers ?? {}, second?.body ?? '')).toBe(true);
    }
  });

  test('names each event, wait and limit', () => {
    for (const type of notificationTypes) {
      expect(page).toMatch(new RegExp(`^\\| .*\`${type}\`.* \\|`, 'm'));
    }
    const waits = retryDelaysMs.map((ms) => {
      if (ms < 60_000) return `${ms / 1_000} s`;
      return ms < 3_600_000 ? `${ms / 60_000} min` : `${ms / 3_600_000} h`;
    });
    expect(page).toContain(`${waits.slice(0, -1).join(', ')} and ${waits.at(-1)} after`);
    expect(page).toContain(`${retryDelaysMs.length + 1} attempts`);
    expect(page).toContain(`can have ${maxTargets} targets`);
    expect(disableAfterDays).toBe(5);
  });
});
