import { Type } from 'typebox';
import { deliveryStatuses, notificationTypes } from '../../../foundation/domain/notification.ts';
import { orNotFound } from '../../../foundation/domain/problem.ts';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import {
  type Delivery,
  listDeliveries,
} from '../../../state/store/notifications/notification-deliveries.ts';
import {
  findNotificationTarget,
  listNotificationTargets,
  type NotificationTarget as StoredTarget,
} from '../../../state/store/notifications/notification-targets.ts';
import { testTarget } from '../../use-cases/notifications/deliver.ts';
import {
  changedInput,
  changeTarget,
  checkTarget,
  checkTargetChange,
  createTarget,
  removeTarget,
  rotateSecret,
  type TargetChange,
  type TargetInput,
  type TargetWithSecret,
} from '../../use-cases/notifications/targets.ts';
import { type Api, actorOf, type Request, reachOf, targetOf } from '../api.ts';
import { teamFor } from '../batch-exports/load.ts';
import {
  CursorPageOf,
  CursorQuery,
  clampLimit,
  cursorEnvelope,
  OffsetPageOf,
  offsetEnvelope,
  PageQuery,
  pageOf,
  positionOf,
} from '../lists.ts';
import { costOfTrial, type Family, notificationOperations } from '../operations.ts';
import type { Deps } from '../options.ts';
import { untilClosed } from '../replies.ts';
import { answers, Ref } from '../shapes.ts';
import { refusesAll, withRules } from '../validation/every-problem.ts';
import { isUuid } from '../validation/validator.ts';
import {
  CreatedNotificationTarget,
  CreateTarget,
  NotificationDelivery,
  NotificationTarget,
  NotificationTest,
  PatchTarget,
} from './schema.ts';

/** A hook: the target that the path names, or 404. Runs before the body is read. */
async function loadNotificationTarget(request: Request): Promise<void> {
  const { id = '' } = request.params as { id?: string };
  const { db } = request.context;
  const target = orNotFound(
    isUuid(id) ? await findNotificationTarget(db, reachOf(request), id) : null,
  );
  request.notificationTarget = target;
}

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of routes
export function notificationRoutes(api: Api, family: Family, deps: Deps): void {
  const { notifications: sender, notificationTests: tests } = deps;
  const { read, write } = notificationOperations(family, loadNotificationTarget);
  const newTarget = refusesAll({
    examine: (_request, body) => {
      const { kind, ...input } = createInput(body as CreateTarget);
      return checkTarget(sender, kind, input, false);
    },
    // A target of another kind has other fields.
    follow: { kind: ['url', 'format', 'recipients'] },
  });
  const changedTarget = refusesAll({
    examine: (request, body) =>
      checkTargetChange(sender, targetOf(request), changeInput(body as PatchTarget)),
  });
  const oneTarget = answers(NotificationTarget);

  api.get(
    '',
    read('listNotificationTargets', 'List notification targets, newest first', [], {
      querystring: Type.Object(PageQuery),
      response: { 200: OffsetPageOf(NotificationTarget) },
    }),
    async (request) => {
      const page = pageOf(request.query);
      const { db } = request.context;
      const listed = await listNotificationTargets(db, reachOf(request), page);
      return offsetEnvelope(request, page, listed, targetView);
    },
  );

  const create = write('createNotificationTarget', 'Create a notification target', [], {
    description:
      'The answer shows the secret that signs its requests, once. docs/notifications.md says how to verify a signature.',
    body: CreateTarget,
    response: { 201: Ref(CreatedNotificationTarget) },
  });
  api.post(
    '',
    { ...create, ...newTarget, config: { ...create.config, shownOnce: 'secret' } },
    async (request, reply) => {
      const reach = reachOf(request);
      const said = request.body.team_id ?? undefined;
      const { db } = request.context;
      const isForAll = reach.teamId === null && said === undefined;
      const input = createInput(request.body);
      const { kind, ...target } = input;
      const teamId = isForAll
        ? null
        : await withRules(teamFor(db, reach, said), () => checkTarget(sender, kind, target, false));
      const actor = actorOf(request);
      const created = await createTarget(request.context, sender, actor, teamId, input);
      reply.code(201);
      return targetWithSecretView(created);
    },
  );

  api.get(
    '/:id',
    read('retrieveNotificationTarget', 'Retrieve a notification target', ['id'], oneTarget),
    async (request) => targetView(targetOf(request)),
  );

  api.patch(
    '/:id',
    {
      ...write('updateNotificationTarget', 'Update a notification target', ['id'], {
        body: PatchTarget,
        ...oneTarget,
      }),
      ...changedTarget,
    },
    async (request) => {
      const { id } = targetOf(request);
      const change = changeInput(request.body);
      const actor = actorOf(request);
      return targetView(await changeTarget(request.context, sender, actor, id, change));
    },
  );

  api.delete(
    '/:id',
    write('deleteNotificationTarget', 'Delete a notification target and its log', ['id'], {
      response: { 204: Type.Null({ description: 'Deleted.' }) },
    }),
    async (request, reply) => {
      await removeTarget(request.context, actorOf(request), targetOf(request));
      return reply.code(204).send(null);
    },
  );

  const rotate = write('rotateNotificationSecret', 'Replace the secret of a webhook', ['id'], {
    description:
      'The answer shows the new secret, once. For 24 hours requests carry two signatures: by the new and by the previous secret.',
    response: { 200: Ref(CreatedNotificationTarget) },
  });
  api.post(
    '/:id/rotate_secret',
    { ...rotate, config: { ...rotate.config, shownOnce: 'secret' } },
    async (request) => {
      const { id } = targetOf(request);
      return targetWithSecretView(await rotateSecret(request.context, actorOf(request), id));
    },
  );

  const test = write('testNotificationTarget', 'Send a test to a notification target', ['id'], {
    description:
      'Waits for the answer of the receiver, at most 15 seconds. The test is in the log of deliveries.',
    response: { 200: Ref(NotificationTest) },
  });
  api.post(
    '/:id/test',
    // Its effects are out of the database: nothing can undo them.
    { ...test, config: { ...test.config, changesNothing: true as const, cost: costOfTrial } },
    async (request, reply) => {
      const target = targetOf(request);
      const { organizationId } = reachOf(request);
      const work = () => testTarget(request.context, sender, target);
      return inSnakeCase(await tests.use(organizationId, untilClosed(reply), work));
    },
  );

  api.get(
    '/:id/deliveries',
    read('listNotificationDeliveries', 'List what was sent to a target, newest first', ['id'], {
      querystring: Type.Object({
        ...CursorQuery,
        status: Type.Optional(Type.Enum([...deliveryStatuses])),
      }),
      response: { 200: CursorPageOf(NotificationDelivery) },
    }),
    async (request) => {
      const { cursor, limit, status = null } = request.query;
      const position = positionOf(cursor, 'created_at');
      const { id } = targetOf(request);
      const { db } = request.context;
      const page = await listDeliveries(db, id, status, position, clampLimit(limit));
      const keyOf = ({ createdAt, id: key }: Delivery) => ({ at: createdAt, id: key });
      return cursorEnvelope(request, 'created_at', page, keyOf, deliveryView);
    },
  );
}

/** Turns a validated body into the input of the use case; drops unknown fields. */
function createInput({ kind = 'webhook', ...body }: CreateTarget) {
  return { kind, ...changedInput(defaults, changeInput(body)) };
}

const defaults: Omit<TargetInput, 'url'> = {
  description: '',
  format: 'json',
  recipients: [],
  events: notificationTypes,
  enabled: true,
};

function changeInput({ recipients, events, ...body }: PatchTarget): TargetChange {
  return {
    ...body,
    recipients: recipients && unique(recipients),
    events: events && unique(events),
  };
}

const unique = <T>(values: readonly T[]): readonly T[] => [...new Set(values)];

function targetView(target: StoredTarget): NotificationTarget {
  const { organizationId: _, secrets: __, recipients, events, ...shown } = target;
  return { ...inSnakeCase(shown), recipients: [...recipients], events: [...events] };
}

function targetWithSecretView({ target, secret }: TargetWithSecret) {
  return { ...targetView(target), secret };
}

function deliveryView({ exportId, attemptLog, ...delivery }: Delivery): NotificationDelivery {
  return {
    ...inSnakeCase(delivery),
    batch_export_id: exportId,
    attempt_log: [...attemptLog],
  };
}
