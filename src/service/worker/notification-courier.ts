import type {
  NotificationOutcome,
  NotificationSender,
  TargetKind,
} from '../../foundation/domain/notification.ts';
import { within } from '../../foundation/domain/patience.ts';
import {
  type ClaimedDelivery,
  claimDeliveries,
} from '../../state/store/notifications/notification-deliveries.ts';
import type { Context } from '../use-cases/context.ts';
import { deliver, deliveryLeaseMs } from '../use-cases/notifications/deliver.ts';
import { shareNext } from './shared-work.ts';

export interface CourierOptions {
  readonly context: Pick<Context, 'db' | 'secrets'>;
  readonly sender: NotificationSender;
  readonly onSent: (kind: TargetKind, outcome: NotificationOutcome) => void;
  readonly onError: (error: unknown) => void;
}

/** Deliveries that a worker attempts at a time. Mail has slots of its own: a slow mail server delays mail only. */
const slots: Readonly<Record<TargetKind, number>> = { webhook: 64, email: 8 };

/** Deliveries of one organization at a time, in all workers. One whose receivers never answer delays its own only. */
const perOrganization: Readonly<Record<TargetKind, number>> = { webhook: 4, email: 2 };

/** Time that `close` waits for attempts in progress. The others are sent again, after the lease. */
const goodbyeMs = 5_000;

/** Sends the notifications that wait, some at a time. */
export class NotificationCourier {
  readonly #options: CourierOptions;
  readonly #sending = new Map<TargetKind, Set<Promise<void>>>();
  /** Starts what is due and has a slot; does not wait for its end. Calls during one share the next one. */
  readonly collect = shareNext(() => this.#collect());
  #isClosed = false;

  constructor(options: CourierOptions) {
    this.#options = options;
  }

  async #collect(): Promise<void> {
    if (this.#isClosed) return;
    for (const kind of ['webhook', 'email'] as const) {
      const running = this.#running(kind);
      const limit = slots[kind] - running.size;
      if (limit <= 0) continue;
      const claimedAtMs = performance.now();
      const limits = { limit, perOrganization: perOrganization[kind], leaseMs: deliveryLeaseMs };
      const claimed = await claimDeliveries(this.#options.context.db, kind, limits);
      for (const delivery of claimed) {
        const sending = this.#send(delivery, claimedAtMs).finally(() => {
          running.delete(sending);
          // Another one may wait for this slot.
          void this.collect().catch(this.#options.onError);
        });
        running.add(sending);
      }
    }
  }

  #running(kind: TargetKind): Set<Promise<void>> {
    const running = this.#sending.get(kind) ?? new Set();
    this.#sending.set(kind, running);
    return running;
  }

  async #send(delivery: ClaimedDelivery, claimedAtMs: number): Promise<void> {
    const { context, sender, onSent, onError } = this.#options;
    try {
      const outcome = await deliver(context, sender, delivery, claimedAtMs, Math.random());
      if (outcome) onSent(delivery.kind, outcome);
    } catch (error) {
      onError(error);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.collect().catch(() => {});
    const all = [...this.#sending.values()].flatMap((sending) => [...sending]);
    if (all.length === 0) return;
    await within(goodbyeMs, Promise.allSettled(all), null);
  }
}
