import {
  deliveryStatuses,
  notificationTypes,
  targetKinds,
  webhookFormats,
} from '../../../foundation/domain/notification.ts';
import { readCount, readList, readWebhook } from '../arguments.ts';
import { misused } from '../deps.ts';
import { type Colour, count, shortName, shortTime } from '../text.ts';
import type { Json } from './json.ts';
import type { NotificationDelivery, NotificationTarget } from './types.ts';
import {
  type Called,
  type Field,
  get,
  list,
  type More,
  patch,
  post,
  remove,
  tableOf,
  type Verbs,
  yes,
} from './verb.ts';

const target: Field = ['<target>', 'its id'];

const settings: Readonly<Record<string, Field>> = {
  url: ['--webhook <url>', 'address that a webhook posts to; it is stored encrypted', readWebhook],
  format: ['--format <format>', `of the body of a webhook: ${webhookFormats.join(', ')}`],
  recipients: ['--recipients <list>', 'e-mail addresses, separated by commas', readList],
  events: ['--events <list>', `such as ${notificationTypes.slice(0, 2).join(',')}`, readList],
  description: ['--description <text>', 'a name for people'],
};

/** The targets of a project, or of the installation: the same operations. */
const ofTargets = {
  flags: {
    installation: [
      '--installation',
      'targets of the whole installation, with the key of an operator',
    ],
  },
  at: (path: string, { installation }: Json) => (installation ? `/api/admin/${path}` : path),
  notFound: 'There is no such target. `sluice notifications list` lists them.',
} as const satisfies Omit<More<unknown>, 'about'>;
const ofTarget = { ...ofTargets, args: { id: target } } as const;

/** Eighteen names would hide what a person looks for. */
const namesOf = (events: readonly string[]) =>
  notificationTypes.every((type) => events.includes(type)) ? 'all' : events.join(', ');

const targetLines = tableOf<NotificationTarget>(
  'none',
  ['TARGET', 'KIND', 'STATE', 'ADDRESS', 'DESCRIPTION', 'EVENTS'],
  (one) => [
    one.id,
    one.kind,
    one.enabled ? (one.failing_since === null ? 'enabled' : 'failing') : 'disabled',
    one.url_preview ?? one.recipients.join(', '),
    shortName(one.description),
    namesOf(one.events),
  ],
);
const lineOf = (one: NotificationTarget, called: Called) => targetLines([one], called);

function checkEvents({ events }: Json): void {
  const unknown = ((events ?? []) as string[]).filter(
    (event) => !notificationTypes.some((type) => type === event),
  );
  if (unknown.length === 0) return;
  throw misused(
    `--events: unknown ${unknown.join(', ')}. The events are ${notificationTypes.join(', ')}.`,
  );
}

const colours: Partial<Record<NotificationDelivery['status'], Colour>> = {
  delivered: 'green',
  given_up: 'red',
  waiting: 'yellow',
};

const deliveryLines = tableOf<NotificationDelivery>(
  'none',
  ['DELIVERY', 'HAPPENED', 'EVENT', 'STATUS', 'ATTEMPTS', 'ANSWER', 'NEXT', 'EXPORT'],
  (one) => [
    one.id,
    shortTime(one.happened_at),
    one.event_type,
    { text: one.status, colour: colours[one.status] },
    count(one.attempts),
    one.attempt_log.at(-1)?.answer ?? '-',
    shortTime(one.next_attempt_at),
    one.batch_export_id ?? '-',
  ],
);

const oneTarget = 'notification_targets/{id}';

export const targetVerbs: Verbs = {
  'notifications list': get('notification_targets', {
    about: 'list the targets, newest first',
    ...ofTargets,
    sends: { limit: 100 },
    lines: ({ results }, called) => targetLines(results, called),
  }),
  'notifications create': post('notification_targets', {
    about: 'create a target; the secret of a webhook is shown once',
    ...ofTargets,
    options: { kind: ['--kind <kind>', 'default: webhook', { choices: targetKinds }], ...settings },
    prepare({ given }) {
      checkEvents(given);
      return {
        ...given,
        kind: given.kind ?? (given.recipients === undefined ? 'webhook' : 'email'),
      };
    },
    lines: (created, called) => [
      ...lineOf(created, called),
      ...('secret' in created && created.secret ? [`secret  ${created.secret}`] : []),
    ],
  }),
  'notifications edit': patch(oneTarget, {
    about: 'change a target; what is not named keeps its value',
    ...ofTarget,
    options: settings,
    prepare({ given }) {
      checkEvents(given);
      if (Object.keys(settings).some((name) => given[name] !== undefined)) return given;
      throw misused('Name what to change, such as --events.');
    },
    lines: lineOf,
  }),
  'notifications enable': patch(oneTarget, {
    about: 'enable a target; its failures are forgotten',
    ...ofTarget,
    sends: { enabled: true },
    lines: lineOf,
  }),
  'notifications disable': patch(oneTarget, {
    about: 'disable a target; what waits for it is not sent',
    ...ofTarget,
    sends: { enabled: false },
    lines: lineOf,
  }),
  'notifications test': post(`${oneTarget}/test`, {
    about: 'send a test to a target; exits with 1 if it was not delivered',
    ...ofTarget,
    lines: ({ answer, latency_ms: ms }) => [`${answer} in ${ms} ms`],
    failure: ({ delivered, answer }) =>
      delivered ? null : `The test was not delivered: ${answer}.`,
  }),
  'notifications rotate': post(`${oneTarget}/rotate_secret`, {
    about: 'give a webhook a new secret; the one before signs too for a day',
    ...ofTarget,
    lines: ({ secret }) => [`secret  ${secret ?? ''}`],
  }),
  'notifications deliveries': list(`${oneTarget}/deliveries`, {
    about: 'list what was sent to a target, newest first, and what it answered',
    ...ofTarget,
    options: {
      status: ['--status <status>', 'only these', { choices: deliveryStatuses }],
      limit: ['--limit <n>', 'deliveries to show', { read: readCount, initial: 20 }],
    },
    list: 'newest',
    lines: deliveryLines,
  }),
  'notifications delete': remove(oneTarget, {
    about: 'delete a target and its log',
    ...ofTarget,
    flags: { ...ofTargets.flags, yes },
    confirm: ({ given }) => `Delete the notification target ${given.id}?`,
    json: (_, { given }) => ({ deleted: given.id }),
    lines: () => ['deleted'],
  }),
};
