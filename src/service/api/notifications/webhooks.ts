import { Type } from 'typebox';
import { notificationTypes } from '../../../foundation/domain/notification.ts';
import { Nullable, Time } from '../schemas/shapes.ts';

const data = {
  test: 'Nothing: a person asked for a test.',
  digest: 'Many events of one type: type, count, first_at, last_at, errors, projects and events.',
};

/** The body of the format `json`, as `notifications/payload.ts` makes it. New fields and types may come. */
const Event: object = Type.Object(
  {
    id: Type.String({
      format: 'uuid',
      description: 'The same for each attempt. Drop an id that you have seen.',
    }),
    type: Type.Enum([...notificationTypes, ...Object.keys(data)]),
    timestamp: Time,
    organization_id: Type.String({ format: 'uuid' }),
    project_id: Nullable(
      Type.Integer({ description: 'Null for the test of a target of an organization.' }),
    ),
    data: Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      additionalProperties: true,
      properties: {
        export: Type.Object({ id: Type.String({ format: 'uuid' }), name: Type.String() }),
      },
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
