import { type Static, Type } from 'typebox';
import {
  deliveryStatuses,
  maxRecipients,
  notificationTypes,
  targetKinds,
  webhookFormats,
} from '../../../foundation/domain/notification.ts';
import {
  Flag,
  IntOrNull,
  Nullable,
  named,
  Resource,
  Text,
  TextOrNull,
  Time,
  TimeOrNull,
} from '../shapes.ts';

const Events = Type.Array(Type.Enum([...notificationTypes]), {
  minItems: 1,
  maxItems: 50,
  description:
    'Changes to be notified of. export.failing: a run failed, after the runs before it succeeded. export.retries_exhausted: the attempts of a run are used up. export.paused: Sluice paused the export. export.recovered: a run succeeded again. export.late: the data has missed its deadline; without a deadline, it is more than two intervals old. export.on_time: it is no longer. backfill.completed: a backfill has ended.',
});
const Description = Type.String({ maxLength: 400, description: 'For people.' });
const Url = Type.String({
  minLength: 1,
  maxLength: 2_048,
  description:
    'Where requests are sent to: https. Stored encrypted, and never shown: only its `url_preview` is.',
  examples: ['https://example.com/hooks/sluice'],
});
const Format = Type.Enum([...webhookFormats], {
  description:
    'json: the event as JSON. slack: a text, as incoming webhooks of Slack take it. teams: an adaptive card for a workflow of Microsoft Teams. discord: a message for a webhook of Discord. pagerduty: an event of PagerDuty (Events API v2), one alert for each export and cause, resolved when the export recovers; url is https://events.pagerduty.com/v2/enqueue?routing_key=….',
});
const Recipients = Type.Array(Type.String({ maxLength: 254 }), {
  maxItems: maxRecipients,
  description:
    'E-mail addresses, each listed by the operator (MAIL_RECIPIENTS) itself or by its domain. Only for kind email.',
});

const settable = {
  url: Type.Optional(Url),
  format: Type.Optional(Format),
  recipients: Type.Optional(Recipients),
  events: Type.Optional(Events),
  description: Type.Optional(Description),
};

const target = {
  id: Type.String({ format: 'uuid' }),
  team_id: IntOrNull('The project; null: all projects of the organization.'),
  kind: Type.Enum([...targetKinds]),
  description: Type.String(),
  url_preview: TextOrNull(
    'Host and end of the URL; the rest can be a credential. Null for e-mail.',
  ),
  format: Format,
  recipients: Type.Array(Type.String()),
  events: Type.Array(Type.String()),
  enabled: Type.Boolean(),
  disabled_reason: TextOrNull('Why Sluice disabled it; null if a person did.'),
  failing_since: TimeOrNull(
    'Since when every attempt has failed; null if the newest one succeeded.',
  ),
  previous_secret_until: TimeOrNull('Until then the previous secret signs too.'),
  created_at: Time,
  last_updated_at: Time,
};

const example = {
  id: '0d3cf0b7-5a2c-4e0e-9d0e-7d3b1c9f2a11',
  team_id: 1,
  kind: 'webhook',
  description: 'On-call',
  url_preview: 'https://example.com/…uice',
  format: 'json',
  recipients: [],
  events: ['export.failing', 'export.recovered'],
  enabled: true,
  disabled_reason: null,
  failing_since: null,
  previous_secret_until: null,
  created_at: '2024-03-01T00:12:31.104233Z',
  last_updated_at: '2024-03-01T00:12:31.104233Z',
};

export const NotificationTarget = named(
  'NotificationTarget',
  Type.Object(target, {
    description: 'Who is notified when the state of an export changes.',
    examples: [example],
  }),
);
export type NotificationTarget = Static<typeof NotificationTarget>;

export const CreatedNotificationTarget = named(
  'CreatedNotificationTarget',
  Type.Object(
    {
      ...target,
      secret: TextOrNull(
        'The secret that signs requests. This answer is the only one that shows it. Null for e-mail, and in the answer to a repeated Idempotency-Key.',
      ),
    },
    {
      description: 'A notification target and its new secret.',
      examples: [{ ...example, secret: 'whsec_bm90IGEgcmVhbCBzZWNyZXQ' }],
    },
  ),
);

export const CreateTarget = Type.Object({
  kind: Type.Optional(Type.Enum([...targetKinds], { description: 'Default: webhook.' })),
  ...settable,
  enabled: Type.Optional(Type.Boolean()),
  team_id: Type.Optional(
    IntOrNull(
      'On organization paths: the project whose exports it follows; null or absent: all projects.',
    ),
  ),
});
export type CreateTarget = Static<typeof CreateTarget>;

export const PatchTarget = Type.Object({
  ...settable,
  enabled: Type.Optional(Flag('false cancels waiting deliveries; true forgets earlier failures.')),
});
export type PatchTarget = Static<typeof PatchTarget>;

export const NotificationDelivery = Resource(
  'NotificationDelivery',
  'An event for one target, and the attempts to deliver it.',
  {
    id: Type.String({ format: 'uuid' }),
    event_id: Type.String({
      format: 'uuid',
      description: 'The header webhook-id; the same for each attempt and each target.',
    }),
    event_type: Text('One of `events`, or `test`.'),
    batch_export_id: Nullable(Type.String({ format: 'uuid' })),
    happened_at: Time,
    status: Type.Enum([...deliveryStatuses], {
      description:
        'cancelled: the target was disabled. replaced: it was not sent, because too many came at once (docs/notifications.md#storms).',
    }),
    attempts: Type.Integer(),
    next_attempt_at: TimeOrNull('Null unless it waits.'),
    attempt_log: Type.Array(
      Type.Object({
        at: Time,
        answer: Text('`HTTP 204`, `SMTP 250`, or a word: timeout, unknown_host, tls_error …'),
        latency_ms: Type.Integer(),
      }),
      { description: 'The attempts, oldest first.' },
    ),
    created_at: Time,
    finished_at: Nullable(Time),
  },
);
export type NotificationDelivery = Static<typeof NotificationDelivery>;

export const NotificationTest = Resource(
  'NotificationTest',
  'How a test of a notification target ended.',
  {
    delivered: Type.Boolean(),
    answer: Text('As in the log of deliveries.'),
    latency_ms: Type.Integer(),
  },
);
