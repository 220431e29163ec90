import { Type } from 'typebox';
import { notificationTypes } from '../../../foundation/domain/notification.ts';
import { Nullable, Time } from '../schemas/shapes.ts';

const Id = Type.String({ format: 'uuid' });
const Named = Type.Object({ id: Id, name: Type.String() });
const Count = Type.Integer({ minimum: 0 });
const Text = Nullable(Type.String());
const When = Nullable(Time);

/** The fields of `data`. Each type of event has some of them, as docs/notifications.md says. */
const data = {
  export: Named,
  organization: Named,
  project: Type.Object({ id: Type.Integer(), name: Type.String(), tenant_key: Type.String() }),
  code: Text,
  fault: Text,
  turn: Text,
  since: When,
  missing_intervals: Count,
  statement: Nullable(Type.Object({ number: Count, sha256: Type.String() })),
  acknowledged: Type.Object({
    number: Count,
    sha256: Type.String(),
    rows: Count,
    rows_of_balance: Count,
  }),
  remedy: Text,
  link: Text,
  run: Type.Object({
    id: Id,
    data_interval_start: Time,
    data_interval_end: Time,
    attempt: Type.Integer(),
    backfill_id: Nullable(Id),
  }),
  error: Type.Object({ code: Text, detail: Text }),
  reason: Type.String(),
  failure_streak: Type.Integer(),
  failing_since: Time,
  high_water_mark: When,
  late_since: When,
  incomplete_since: When,
  backfill: Type.Object({
    id: Id,
    start_at: Time,
    end_at: Time,
    total_runs: Count,
    failed_runs: Count,
  }),
  result: Type.String(),
  breaches: Count,
  detail: Type.String(),
  failed_since: When,
  cause: Nullable(Type.Object({ code: Text, means: Text })),
  export_count: Count,
  interval_count: Count,
  next_step: Text,
  exports: Type.Array(
    Type.Object({ id: Id, name: Type.String(), project_id: Type.Integer(), intervals: Count }),
  ),
};

/** The body of the format `json`, as `notifications/payload.ts` makes it. New fields and types may come. */
const Event: object = Type.Object(
  {
    id: Type.String({
      format: 'uuid',
      description: 'The same for each attempt. Drop an id that you have seen.',
    }),
    type: Type.Enum([...notificationTypes, 'test']),
    timestamp: Time,
    organization_id: Type.String({ format: 'uuid' }),
    project_id: Nullable(
      Type.Integer({ description: 'Null for the test of a target of an organization.' }),
    ),
    data: Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      additionalProperties: true,
      properties: data,
      description:
        'The export, and what docs/notifications.md lists for the type. Ignore fields that you do not know.',
    }),
  },
  { description: 'A change that a notification target asked for.' },
);

const header = (name: string, description: string) => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type: 'string' } as const,
});

/** The requests that Sluice sends to targets of the format `json`, for the OpenAPI document. */
export const webhooks = {
  notification: {
    post: {
      operationId: 'receiveNotification',
      summary: 'A notification, as Sluice sends it to a webhook target of the format json',
      description:
        'Answer with any 2xx status within 15 seconds. Sluice retries after any other answer.',
      tags: ['Notifications'],
      security: [],
      parameters: [
        header('webhook-id', 'The id of the event.'),
        header('webhook-timestamp', 'Seconds since the epoch at which the attempt was signed.'),
        header(
          'webhook-signature',
          'Signatures of Standard Webhooks: `v1,` and the base64 of an HMAC-SHA256, one for each secret, separated by spaces.',
        ),
      ],
      requestBody: { required: true, content: { 'application/json': { schema: Event } } },
      responses: { '2XX': { description: 'Delivered.' } },
    },
  },
};
