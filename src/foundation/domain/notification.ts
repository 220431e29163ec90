import type { Timestamp } from './time.ts';

export const notificationTypes = [
  'export.failing',
  'export.retries_exhausted',
  'export.paused',
  'export.recovered',
  'export.late',
  'export.on_time',
  'backfill.completed',
  'export.incomplete',
  'export.complete',
  'installation.no_workers',
  'installation.no_workers_over',
  'healing.started',
  'healing.ended',
  'interval.at_risk',
  'interval.missed',
  'interval.delivered_late',
  'load.differs',
  'load.agrees',
  'verify.failed',
  'verify.passed',
] as const;

export type NotificationType = (typeof notificationTypes)[number];

export const deliveryStatuses = [
  'waiting',
  'delivered',
  'given_up',
  'cancelled',
  'replaced',
] as const;
export type DeliveryStatus = (typeof deliveryStatuses)[number];

export const targetKinds = ['webhook', 'email'] as const;
export type TargetKind = (typeof targetKinds)[number];

/** The body of a webhook: our own JSON, or a message that Slack and its like show. */
export const webhookFormats = ['json', 'slack', 'teams', 'discord', 'pagerduty'] as const;
export type WebhookFormat = (typeof webhookFormats)[number];

/** An event as it was recorded. `facts` has the shape that docs/notifications.md describes. */
export interface Notification {
  /** It is the same for each attempt and each target: a receiver drops what it has seen. */
  readonly eventId: string;
  readonly type: NotificationType | 'test';
  readonly happenedAt: Timestamp;
  /** Whose event it is; that of the installation itself is `installationId`. */
  readonly organizationId: string;
  /** Null: a test of a target of the whole organization. */
  readonly projectId: number | null;
  readonly facts: Readonly<Record<string, unknown>>;
}

export type NotificationAddress =
  | {
      readonly kind: 'webhook';
      readonly url: string;
      readonly format: WebhookFormat;
      /** Each signs. */
      readonly secrets: readonly string[];
    }
  | { readonly kind: 'email'; readonly recipients: readonly string[] };

export interface NotificationOrder {
  readonly notification: Notification;
  readonly address: NotificationAddress;
  /** Seconds since the epoch by Postgres' clock, as the attempt began. A receiver refuses an old one. */
  readonly signedAt: number;
}

export interface NotificationOutcome {
  readonly delivered: boolean;
  /** `HTTP 204`, `timeout`, `endpoint_forbidden`: what the target's owner may see, nothing of our network. */
  readonly answer: string;
  readonly latencyMs: number;
}

/** Sends notifications out of this installation. The composition root provides it. */
export interface NotificationSender {
  readonly canEmail: boolean;
  /** Says whether the operator lists the address, or its domain. */
  mayMail(address: string): boolean;
  /** Says whether the operator allows http:// to this host. */
  allowsPlainHttp(url: URL): boolean;
  /** Why this host is never called, without asking a resolver; null: it may be. */
  refusalOf(url: URL): string | null;
  /** One attempt, limited in time. Never throws. */
  send(order: NotificationOrder): Promise<NotificationOutcome>;
}

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;

/** The wait after each failed attempt; after the last attempt the delivery is given up. About a day in all. */
export const retryDelaysMs: readonly number[] = [
  5 * second,
  30 * second,
  2 * minute,
  10 * minute,
  30 * minute,
  hour,
  2 * hour,
  4 * hour,
  8 * hour,
  8 * hour,
];

/** Up to a tenth longer; null: give up. @param attempts that failed, at least 1 @param random in [0, 1) */
export function retryDelayMs(attempts: number, random: number): number | null {
  const delay = retryDelaysMs[attempts - 1];
  return delay === undefined ? null : Math.round(delay * (1 + random / 10));
}

/** Maximum targets of an organization, those of its projects included. */
export const maxTargets = 20;

/** Maximum recipients of an e-mail target. */
export const maxRecipients = 10;
