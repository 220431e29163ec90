import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Changes } from '../../../foundation/domain/export-settings.ts';
import {
  maxTargets,
  type NotificationSender,
  type TargetKind,
} from '../../../foundation/domain/notification.ts';
import {
  notFound,
  type Problem,
  Refusal,
  refuseIfAny,
} from '../../../foundation/domain/problem.ts';
import { type Change, changesIn, recordActivity } from '../../../state/store/exports/activity.ts';
import {
  cancelDeliveriesOf,
  countTargetsLocked,
  deleteTarget,
  insertTarget,
  lockTarget,
  type NotificationTarget,
  storeRotatedSecret,
  updateTarget,
} from '../../../state/store/notifications/notification-targets.ts';
import type { Actor, Context } from '../context.ts';
import { checkTarget, previewUrl, type TargetInput } from './rules.ts';
import { mintSecret, openWebhook, sealWebhook } from './secrets.ts';

/** The hours in which the previous secret of a webhook signs beside the new one. */
export const rotationGraceHours = 24;

/** A target, with its signing secret in plain text if it has a new one. It is shown this once. */
export interface TargetWithSecret {
  readonly target: NotificationTarget;
  readonly secret: string | null;
}

/**
 * Creates a target.
 *
 * @param teamId null: all projects of the actor's organization
 */
export async function createTarget(
  context: Context,
  sender: NotificationSender,
  actor: Actor,
  teamId: number | null,
  { kind, ...input }: TargetInput & { readonly kind: TargetKind },
): Promise<TargetWithSecret> {
  refuseIfAny(checkTarget(sender, kind, input, false));
  const { organizationId } = actor;
  const id = randomUUID();
  const secret = kind === 'webhook' ? mintSecret() : null;
  const { url, ...settings } = input;
  const sealed =
    secret === null || url === null
      ? null
      : sealWebhook(context.secrets, id, { url, secret, previousSecret: null });
  const target = await context.db.transaction(async (tx) => {
    if ((await countTargetsLocked(tx, organizationId)) >= maxTargets) throw tooMany();
    const urlPreview = url === null ? null : previewUrl(url);
    const created = { ...settings, id, organizationId, teamId, kind, urlPreview, secrets: sealed };
    const inserted = await insertTarget(tx, created);
    await recordActivity(tx, actor, 'created', 'notification_target', inserted);
    return inserted;
  });
  return { target, secret };
}

const tooMany = () =>
  new Refusal({
    code: 'invalid_input',
    detail: `The organization has ${maxTargets} notification targets, the maximum. Delete one.`,
    attr: null,
  });

/** An undefined field keeps its value. */
export type TargetChange = Changes<TargetInput>;

/** Everything that is wrong with a change of a target. */
export function checkTargetChange(
  sender: NotificationSender,
  before: NotificationTarget,
  change: TargetChange,
): Problem[] {
  const input = changedInput(before, change);
  const keepsAddress = before.kind !== 'email' || change.recipients === undefined;
  return checkTarget(sender, before.kind, input, keepsAddress);
}

/** A target after a change; its URL is null if it stays. */
export function changedInput(before: Omit<TargetInput, 'url'>, change: TargetChange): TargetInput {
  return {
    description: change.description ?? before.description,
    url: change.url ?? null,
    format: change.format ?? before.format,
    recipients: change.recipients ?? before.recipients,
    events: change.events ?? before.events,
    enabled: change.enabled ?? before.enabled,
  };
}

/** Changes a target. If it is disabled, what waits for it is not sent. */
export async function changeTarget(
  context: Context,
  sender: NotificationSender,
  actor: Actor,
  id: string,
  change: TargetChange,
): Promise<NotificationTarget> {
  return context.db.transaction(async (tx) => {
    const before = await lockTarget(tx, id);
    if (!before) throw notFound();
    refuseIfAny(checkTargetChange(sender, before, change));
    const { url, ...settings } = changedInput(before, change);
    const after = await updateTarget(tx, id, {
      ...settings,
      urlPreview: url === null ? before.urlPreview : previewUrl(url),
      secrets: url === null ? before.secrets : resealUrl(context, before, url),
    });
    // Deliveries that waited while it was disabled are old news.
    if (before.enabled !== after.enabled) await cancelDeliveriesOf(tx, id);
    const changes = targetChanges(before, after);
    await recordActivity(tx, actor, 'updated', 'notification_target', after, changes);
    return after;
  });
}

function resealUrl({ secrets }: Context, { id, secrets: sealed }: NotificationTarget, url: string) {
  if (sealed === null) throw new Error('a webhook has no secrets');
  return sealWebhook(secrets, id, { ...openWebhook(secrets, id, sealed), url });
}

/**
 * Gives a webhook a new secret. The one before signs too for `rotationGraceHours`; one before that no more.
 *
 * @throws Refusal for e-mail, which is not signed
 */
export async function rotateSecret(
  context: Context,
  actor: Actor,
  id: string,
): Promise<TargetWithSecret> {
  const secret = mintSecret();
  const target = await context.db.transaction(async (tx) => {
    const before = await lockTarget(tx, id);
    if (!before) throw notFound();
    if (before.secrets === null) throw noSecret();
    const opened = openWebhook(context.secrets, id, before.secrets);
    const rotated = { ...opened, secret, previousSecret: opened.secret };
    const sealed = sealWebhook(context.secrets, id, rotated);
    const after = await storeRotatedSecret(tx, id, sealed, rotationGraceHours);
    await recordActivity(tx, actor, 'secret_rotated', 'notification_target', after);
    return after;
  });
  return { target, secret };
}

const noSecret = () =>
  new Refusal({
    code: 'conflict',
    detail: 'An e-mail target has no secret: only webhooks are signed.',
    attr: null,
  });

/** Deletes a target with its deliveries. What is being sent at this moment may still arrive. */
export async function removeTarget(
  context: Context,
  actor: Actor,
  target: NotificationTarget,
): Promise<void> {
  await context.db.transaction(async (tx) => {
    if (!(await deleteTarget(tx, target.id))) throw notFound();
    await recordActivity(tx, actor, 'deleted', 'notification_target', target);
  });
}

const fields = ['description', 'format', 'recipients', 'events', 'enabled'] as const;

/** The changes between two states of a target. The URL shows only that it changed. */
function targetChanges(before: NotificationTarget, after: NotificationTarget): Change[] {
  const changes = changesIn(fields, before, after);
  if (!isDeepStrictEqual(before.secrets, after.secrets)) {
    changes.push({ field: 'url', before: before.urlPreview, after: after.urlPreview });
  }
  return changes;
}
