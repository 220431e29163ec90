import { randomBytes, randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Changes } from '../../../foundation/domain/export-settings.ts';
import {
  maxRecipients,
  maxTargets,
  type NotificationSender,
  type TargetKind,
  type WebhookFormat,
} from '../../../foundation/domain/notification.ts';
import {
  invalid,
  notFound,
  orNotFound,
  type Problem,
  problemsIn,
  Refusal,
  refuseIfAny,
} from '../../../foundation/domain/problem.ts';
import type { SecretBox } from '../../../foundation/security/secret-box.ts';
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

/** The parts of a webhook that are stored encrypted. The URL is, because the URLs of some receivers are their key. */
interface WebhookSecrets {
  readonly url: string;
  readonly secret: string;
  /** Signed before the last rotation; null if there was none. */
  readonly previousSecret: string | null;
}

const identityOf = (targetId: string): string => `notification-target:${targetId}`;

/** A new signing secret in the form of Standard Webhooks: 32 random bytes. */
const mintSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`;

function sealWebhook(box: SecretBox, targetId: string, webhook: WebhookSecrets): Buffer {
  return box.seal({ ...webhook }, identityOf(targetId));
}

/** @throws SluiceError `secrets.undecryptable` */
export function openWebhook(box: SecretBox, targetId: string, sealed: Buffer): WebhookSecrets {
  const { url, secret, previousSecret } = box.open(sealed, identityOf(targetId));
  return {
    url: String(url),
    secret: String(secret),
    previousSecret: typeof previousSecret === 'string' ? previousSecret : null,
  };
}

const inputFields = ['description', 'format', 'recipients', 'events', 'enabled'] as const;

export interface TargetInput extends Pick<NotificationTarget, (typeof inputFields)[number]> {
  /** Null for e-mail. */
  readonly url: string | null;
}

/** @param isStored whether it exists: then a URL that is null stays, and e-mail may be off by now */
export function checkTarget(
  sender: NotificationSender,
  kind: TargetKind,
  input: TargetInput,
  isStored: boolean,
): Problem[] {
  const problems = input.events.length === 0 ? [empty('events', 'Name at least one event.')] : [];
  if (kind === 'email') {
    return [...problems, ...checkEmail(input), ...(isStored ? [] : checkMail(sender, input))];
  }
  if (input.recipients.length > 0) {
    problems.push(invalid('recipients', 'Only for kind email. A webhook has a url.'));
  }
  if (input.url !== null) problems.push(...checkUrl(sender, input.url, input.format));
  else if (!isStored) problems.push(empty('url', 'Enter the URL that requests are sent to.'));
  return problems;
}

function checkUrl(sender: NotificationSender, text: string, format: WebhookFormat): Problem[] {
  const problem = (detail: string) => [invalid('url', detail)];
  if (!URL.canParse(text)) return problem('Use a URL, such as https://example.com/hooks/sluice.');
  const url = new URL(text);
  if (url.protocol === 'http:' && !sender.allowsPlainHttp(url)) {
    return problem(
      'Must start with https://. http:// is only for hosts in ALLOWED_PRIVATE_ENDPOINTS.',
    );
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    return problem('Must start with https://.');
  }
  if (url.username !== '' || url.password !== '') {
    return problem(
      'Remove the user and password. Sluice signs its requests: check the signature instead.',
    );
  }
  if (url.hash !== '') return problem('Remove the fragment (what follows #).');
  const refusal = sender.refusalOf(url);
  if (refusal !== null) return problem(refusal);
  if (format === 'pagerduty' && !url.searchParams.get('routing_key')) {
    return problem(
      'Add the key of your service: https://events.pagerduty.com/v2/enqueue?routing_key=….',
    );
  }
  return [];
}

function checkMail({ canEmail, mayMail }: NotificationSender, { recipients }: TargetInput) {
  const detail =
    'This installation cannot send e-mail. Ask your operator to set SMTP_URL and MAIL_FROM, or use a webhook.';
  if (!canEmail) return [invalid('kind', detail)];
  const others = recipients.filter((each) => isAddress(each) && !mayMail(each));
  if (others.length === 0) return [];
  const unlisted = `This installation sends no mail to ${others.join(', ')}. Ask your operator to list the address or its domain in MAIL_RECIPIENTS, or use a webhook.`;
  return [invalid('recipients', unlisted)];
}

function checkEmail({ recipients, url, format }: TargetInput): Problem[] {
  const none = empty('recipients', 'Enter the e-mail address of at least one recipient.');
  const plain = 'Enter plain e-mail addresses, such as oncall@example.com.';
  const isTooMany = recipients.length > maxRecipients;
  return [
    ...problemsIn(
      [url !== null, 'url', 'Only for kind webhook.'],
      [format !== 'json', 'format', 'Only for kind webhook.'],
    ),
    ...(recipients.length === 0 ? [none] : []),
    ...problemsIn(
      [isTooMany, 'recipients', `Enter at most ${maxRecipients} recipients.`],
      [!recipients.every(isAddress), 'recipients', plain],
    ),
  ];
}

/** One plain address: no names, no lists, nothing that could begin another header or command. */
function isAddress(text: string): boolean {
  const form = /^[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[A-Za-z0-9.-]+\.[A-Za-z0-9-]+$/;
  return text.length <= 254 && form.test(text);
}

const empty = (attr: string, detail: string): Problem => ({ attr, code: 'required', detail });

const shownEnd = 4;

/** The part of a URL that is shown: its origin and its end. The rest may be a credential. */
function previewUrl(text: string): string {
  const { origin, pathname, search } = new URL(text);
  const rest = `${pathname}${search}`;
  if (rest === '/') return origin;
  return rest.length <= 2 * shownEnd ? `${origin}/…` : `${origin}/…${rest.slice(-shownEnd)}`;
}

/** The hours in which the previous secret of a webhook signs beside the new one. */
const rotationGraceHours = 24;

/** A target, with its signing secret in plain text if it has a new one. It is shown this once. */
export interface TargetWithSecret {
  readonly target: NotificationTarget;
  readonly secret: string | null;
}

/** Creates a target. @param teamId null: all projects of the actor's organization */
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
    if ((await countTargetsLocked(tx, organizationId)) >= maxTargets) {
      const detail = `The organization has ${maxTargets} notification targets, the maximum. Delete one.`;
      throw new Refusal(invalid(null, detail));
    }
    const urlPreview = url === null ? null : previewUrl(url);
    const created = { ...settings, id, organizationId, teamId, kind, urlPreview, secrets: sealed };
    const inserted = await insertTarget(tx, created);
    await recordActivity(tx, actor, 'created', 'notification_target', inserted);
    return inserted;
  });
  return { target, secret };
}

export type TargetChange = Changes<TargetInput>;

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
  const fields = inputFields.map((name) => [name, change[name] ?? before[name]]);
  return { ...(Object.fromEntries(fields) as typeof before), url: change.url ?? null };
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
    const before = orNotFound(await lockTarget(tx, id));
    refuseIfAny(checkTargetChange(sender, before, change));
    const { url, ...settings } = changedInput(before, change);
    let { urlPreview, secrets } = before;
    if (url !== null && secrets !== null) {
      urlPreview = previewUrl(url);
      const opened = openWebhook(context.secrets, id, secrets);
      secrets = sealWebhook(context.secrets, id, { ...opened, url });
    }
    const after = await updateTarget(tx, id, { ...settings, urlPreview, secrets });
    // Deliveries that waited while it was disabled are old news.
    if (before.enabled !== after.enabled) await cancelDeliveriesOf(tx, id);
    const changes = targetChanges(before, after);
    await recordActivity(tx, actor, 'updated', 'notification_target', after, changes);
    return after;
  });
}

/** Gives a webhook a new secret. The one before signs too for `rotationGraceHours`; one before that no more. */
export async function rotateSecret(
  context: Context,
  actor: Actor,
  id: string,
): Promise<TargetWithSecret> {
  const secret = mintSecret();
  const target = await context.db.transaction(async (tx) => {
    const before = orNotFound(await lockTarget(tx, id));
    if (before.secrets === null) {
      const detail = 'An e-mail target has no secret: only webhooks are signed.';
      throw new Refusal({ code: 'conflict', detail, attr: null });
    }
    const opened = openWebhook(context.secrets, id, before.secrets);
    const rotated = { ...opened, secret, previousSecret: opened.secret };
    const sealed = sealWebhook(context.secrets, id, rotated);
    const after = await storeRotatedSecret(tx, id, sealed, rotationGraceHours);
    await recordActivity(tx, actor, 'secret_rotated', 'notification_target', after);
    return after;
  });
  return { target, secret };
}

/** Deletes a target with its deliveries. What is being sent at this moment may still arrive. */
export async function removeTarget(context: Context, actor: Actor, target: NotificationTarget) {
  await context.db.transaction(async (tx) => {
    if (!(await deleteTarget(tx, target.id))) throw notFound();
    await recordActivity(tx, actor, 'deleted', 'notification_target', target);
  });
}

/** The changes between two states of a target. The URL shows only that it changed. */
function targetChanges(before: NotificationTarget, after: NotificationTarget): Change[] {
  const changes = changesIn(inputFields, before, after);
  if (!isDeepStrictEqual(before.secrets, after.secrets)) {
    changes.push({ field: 'url', before: before.urlPreview, after: after.urlPreview });
  }
  return changes;
}
