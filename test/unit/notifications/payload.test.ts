import { expect, test } from 'vitest';
import type { Notification } from '../../../src/foundation/domain/notification.ts';
import { retryDelayMs, retryDelaysMs } from '../../../src/foundation/domain/notification.ts';
import {
  discordBody,
  pagerDutyBody,
  takeRoutingKey,
  teamsBody,
} from '../../../src/service/notifications/chat-bodies.ts';
import { emailText, jsonBody, slackBody } from '../../../src/service/notifications/payload.ts';

const failing: Notification = {
  eventId: '6c1a2f9e-1111-4222-8333-444455556666',
  type: 'export.failing',
  happenedAt: '2024-03-01T00:12:31.104233Z',
  organizationId: '0b9f7a5e-4f6c-4f0e-9d0e-0f7b2f6f3f55',
  projectId: 7,
  facts: {
    export: { id: '3f0cf0b7-5a2c-4e0e-9d0e-7d3b1c9f2a11', name: 'Events <!channel>\r\nBcc: x@y.z' },
    run: {
      data_interval_start: '2024-03-01T00:00:00.000000Z',
      data_interval_end: '2024-03-01T01:00:00.000000Z',
    },
    error: { code: 'destination.access_denied', detail: 'destination.access_denied: Refused.' },
  },
};

test('a JSON body names event, owner and facts', () => {
  expect(JSON.parse(jsonBody(failing, null))).toEqual({
    id: failing.eventId,
    type: 'export.failing',
    timestamp: failing.happenedAt,
    organization_id: failing.organizationId,
    project_id: 7,
    data: {
      ...failing.facts,
      fault: 'customer',
      turn: 'customer',
      remedy: expect.stringMatching(/^Grant the credentials .*\. Once it works, Sluice exports /),
      link: null,
    },
  });
});

test('a JSON body of all that has one cause, and of a pause, says whose turn it is, what to do, and where', () => {
  const group: Notification = {
    ...failing,
    type: 'healing.started',
    facts: {
      cause: { code: 'destination.unavailable', means: 'Down.' },
      ...{ fault: 'destination', turn: 'customer', since: null, next_step: 'Wait.' },
      ...{ export_count: 1, interval_count: 2, exports: [{ id: 'a', name: 'A', project_id: 7 }] },
    },
  };
  expect(JSON.parse(jsonBody(group, 'https://sluice.example.com')).data).toMatchObject({
    ...group.facts,
    remedy: 'Wait.',
    link: 'https://sluice.example.com/console/#/7/exports/a/runs',
  });
  const reason = 'destination.access_denied: Refused.';
  const paused: Notification = { ...failing, type: 'export.paused', facts: { reason } };
  expect(JSON.parse(jsonBody(paused, null)).data).toMatchObject({
    reason,
    turn: 'customer',
    remedy: expect.stringMatching(/^Grant the credentials .*\. Once it works, Sluice exports /),
  });
});

test.each(['export.recovered', 'export.on_time', 'export.complete', 'verify.passed'] as const)(
  '%s is no one’s turn, and asks for nothing',
  (type) => {
    expect(JSON.parse(jsonBody({ ...failing, type }, null)).data).toMatchObject({
      ...{ turn: null, remedy: null },
    });
  },
);

test.each([
  ['export.late', 'Look whether workers run'],
  ['verify.failed', 'Run `sluice verify --export'],
  ['installation.no_workers', 'Start a worker'],
] as const)(
  '%s is the turn of the operator, if no error explains it, and says what to do',
  (type, remedy) => {
    const { export: about } = failing.facts;
    const event: Notification = {
      ...failing,
      type,
      facts: type === 'installation.no_workers' ? {} : { export: about },
    };
    expect(JSON.parse(jsonBody(event, 'https://sluice.example.com/')).data).toMatchObject({
      turn: 'ours',
      remedy: expect.stringContaining(remedy),
      link: expect.stringMatching(/^https:\/\/sluice\.example\.com\/console\//),
    });
  },
);

test('a pause, and intervals without data, do not say that a person must do what heals by itself', () => {
  const textOf = (type: 'export.paused' | 'export.incomplete') =>
    emailText({ ...failing, type }, null).text;
  expect(textOf('export.paused')).toContain('the first interval that heals ends the pause');
  expect(textOf('export.incomplete')).toContain('What heals runs by itself.');
});

test('a text for Slack cannot mention a channel', () => {
  const { text } = JSON.parse(slackBody(failing, null)) as { text: string };
  expect(text).toContain('&lt;!channel&gt;');
  expect(text).not.toContain('<');
  expect(text).toContain('destination.access_denied: Refused.');
});

test('a text for Slack and its like has no mention by @', () => {
  const named = {
    ...failing,
    facts: { ...failing.facts, export: { id: 'x', name: '@all @here' } },
  };
  const { text } = JSON.parse(slackBody(named, null)) as { text: string };
  expect(text).toContain('"@\u200ball @\u200bhere"');
});

test('what a store says is one line, and names cannot reorder a text', () => {
  const detail = 'Refused.\r\n\nWire money to \u202eevil';
  const name = `${'n'.repeat(199)}😀`;
  const hostile = {
    ...failing,
    facts: { ...failing.facts, error: { detail }, export: { id: 'x', name } },
  };
  const { text, subject } = emailText(hostile, null);
  expect(text.split('\n')).toContain('Refused. Wire money to evil');
  expect(subject).toBe('[Sluice] Export "x" is failing');
  expect(text.split('\n')).toContain(`Export "${'n'.repeat(199)}" is failing`);
  const paused = { ...hostile, type: 'export.paused', facts: { ...hostile.facts, reason: detail } };
  expect(emailText(paused as typeof failing, null).text.split('\n')).toContain(
    'Refused. Wire money to evil',
  );
});

test('a text links to its export, if the address of the page is known', () => {
  const link =
    'https://sluice.example.com/console/#/7/exports/3f0cf0b7-5a2c-4e0e-9d0e-7d3b1c9f2a11/runs';
  expect(slackBody(failing, 'https://sluice.example.com/')).toContain(link);
  expect(emailText(failing, 'https://sluice.example.com').text).toContain(link);
  expect(emailText(failing, null).text).not.toContain('http');
});

test('the subject of a mail is one line', () => {
  const { subject, text } = emailText(failing, null);
  expect(subject).toBe('[Sluice] Export "3f0cf0b7-5a2c-4e0e-9d0e-7d3b1c9f2a11" is failing');
  expect(text.split('\n')).toContain('Export "Events <!channel> Bcc: x@y.z" is failing');
  expect(text).toContain('Interval 2024-03-01T00:00:00Z to 2024-03-01T01:00:00Z');
});

test('retries last about a day and then end', () => {
  const inAll = retryDelaysMs.reduce((sum, delay) => sum + delay, 0);
  expect(inAll / 3_600_000).toBeGreaterThan(22);
  expect(inAll / 3_600_000).toBeLessThan(26);
  expect(retryDelayMs(1, 0)).toBe(5_000);
  expect(retryDelayMs(1, 0.999)).toBeLessThanOrEqual(5_500);
  expect(retryDelayMs(retryDelaysMs.length, 0)).not.toBeNull();
  expect(retryDelayMs(retryDelaysMs.length + 1, 0)).toBeNull();
});

test('a card for Teams has plain text only, and a link', () => {
  const { attachments } = JSON.parse(teamsBody(failing, 'https://sluice.example.com/'));
  const [{ contentType, content }] = attachments;
  expect(contentType).toBe('application/vnd.microsoft.card.adaptive');
  expect(content).toMatchObject({ type: 'AdaptiveCard', version: '1.4' });
  expect(new Set(content.body.map(({ type }: { type: string }) => type))).toEqual(
    new Set(['RichTextBlock']),
  );
  expect(JSON.stringify(content.body)).toContain('destination.access_denied: Refused.');
  expect(content.actions[0].url).toMatch(/^https:\/\/sluice\.example\.com\//);
  expect(JSON.parse(teamsBody(failing, null)).attachments[0].content.actions).toBeUndefined();
});

test('a message for Discord mentions no one, and keeps to its limits', () => {
  const name = `**@everyone** ${'n'.repeat(400)}`;
  const named = { ...failing, facts: { ...failing.facts, export: { id: 'x', name } } };
  const { embeds, allowed_mentions: mentions } = JSON.parse(discordBody(named, null));
  expect(mentions).toEqual({ parse: [] });
  expect(embeds[0].title).toContain('\\*\\*@everyone\\*\\*');
  expect(embeds[0].title.length).toBeLessThanOrEqual(256);
});

test('PagerDuty has one alert for each export and cause, which a recovery resolves', () => {
  const event = (type: Notification['type']) =>
    JSON.parse(pagerDutyBody({ ...failing, type }, null, 'key'));
  const opened = event('export.failing');
  expect(opened).toMatchObject({ routing_key: 'key', event_action: 'trigger' });
  expect(opened.payload).toMatchObject({ severity: 'error', source: 'sluice' });
  for (const type of ['export.retries_exhausted', 'export.paused'] as const) {
    expect(event(type)).toMatchObject({ event_action: 'trigger', dedup_key: opened.dedup_key });
  }
  expect(event('export.recovered')).toMatchObject({
    ...{ event_action: 'resolve', dedup_key: opened.dedup_key },
  });
  const late = event('export.late');
  expect(late.dedup_key).not.toBe(opened.dedup_key);
  expect(event('export.on_time')).toMatchObject({
    ...{ event_action: 'resolve', dedup_key: late.dedup_key },
  });
  const alone = (type: Notification['type']) =>
    JSON.parse(pagerDutyBody({ ...failing, type, facts: {} }, null, 'key'));
  const stopped = alone('installation.no_workers');
  expect(alone('installation.no_workers_over')).toMatchObject({
    ...{ event_action: 'resolve', dedup_key: stopped.dedup_key },
  });
  expect(event('test')).toMatchObject({ event_action: 'trigger', payload: { severity: 'info' } });
});

test('a missed deadline is an alert of PagerDuty that is no mere information', () => {
  const group: Notification = {
    ...failing,
    facts: {
      cause: { code: 'source.unavailable', means: 'The source database is unavailable.' },
      turn: 'source',
      since: '2024-03-01T00:00:00.000000Z',
      export_count: 2,
      interval_count: 3,
      next_step: 'Start it.',
      exports: [
        { id: '3f0cf0b7-5a2c-4e0e-9d0e-7d3b1c9f2a11', name: 'A', project_id: 7, intervals: 3 },
      ],
    },
  };
  const event = (type: Notification['type'], eventId = group.eventId) =>
    JSON.parse(pagerDutyBody({ ...group, type, eventId }, null, 'key'));
  const severityOf = (type: Notification['type']) => event(type).payload.severity;
  expect(severityOf('interval.missed')).toBe('error');
  expect(severityOf('healing.started')).toBe('error');
  expect(severityOf('interval.at_risk')).toBe('warning');
  expect(severityOf('interval.delivered_late')).toBe('info');
  // What one export has delivered must not end the alert about another one.
  const missed = event('interval.missed');
  const delivered = event('interval.delivered_late', '6c1a2f9e-1111-4222-8333-444455556667');
  expect(delivered.dedup_key).not.toBe(missed.dedup_key);
  expect([missed, delivered].map((one) => one.event_action)).toEqual(['trigger', 'trigger']);
});

test('the key of PagerDuty leaves the URL', () => {
  const { url, routingKey } = takeRoutingKey(
    new URL('https://events.example.com/v2?routing_key=k&a=b'),
  );
  expect([url.href, routingKey]).toEqual(['https://events.example.com/v2?a=b', 'k']);
});
