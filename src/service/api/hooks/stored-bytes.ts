import { Throttled } from '../../../foundation/domain/problem.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { countBytes } from '../../../state/store/database/counted.ts';
import { type Taken, reserveFromBudget } from '../../../state/store/tenants/budgets.ts';
import { type Api, callerOf, type Request } from '../api.ts';

/** The least bytes that a change counts as: rows have columns of their own. */
const bytesPerChange = 2 * 1024;

/** A process takes this share of what is left of the day. */
const share = 1 / 256;

/** Bytes that this process may let through for one organization, until its day ends. */
interface Budget {
  held: number;
  readonly reservation: Taken<'day'>;
  /** On this process' steady clock, milliseconds. */
  readonly endsAt: number;
}

/**
 * Limits what the changes of an organization store in a day, over all API processes. What they delete is kept for
 * a while, so it counts too. The values that the database gets are counted: the change, its record in the
 * activity, the answer that an Idempotency-Key keeps. Each process takes a share of what is left at a time.
 *
 * @param perDay bytes
 */
export function limitStoredBytes(api: Api, db: Sql, perDay: number): void {
  const budgets = new Map<string, Budget>();
  const pending = new Map<string, Promise<void>>();
  const taken = new WeakMap<Request, number>();
  const sent = new WeakMap<Request, number>();

  const refill = async (id: string, needed: number) => {
    const owed = Math.max(0, -(budgets.get(id)?.held ?? 0));
    const reservation = await reserveFromBudget(db, id, { day: perDay }, needed + owed, share);
    const now = performance.now();
    for (const [other, { endsAt }] of budgets) if (endsAt <= now) budgets.delete(other);
    const held = (budgets.get(id)?.held ?? 0) + reservation.granted;
    budgets.set(id, { held, reservation, endsAt: now + reservation.day.endsInMs });
  };
  /** Concurrent requests wait for one refill. */
  const refillOnce = (id: string, needed: number) => {
    const running = pending.get(id) ?? refill(id, needed).finally(() => pending.delete(id));
    pending.set(id, running);
    return running;
  };
  const take = async (id: string, needed: number) => {
    for (;;) {
      const budget = budgets.get(id);
      const leftMs = (budget?.endsAt ?? 0) - performance.now();
      if (budget && leftMs > 0) {
        if (budget.held >= needed) {
          budget.held -= needed;
          return;
        }
        const { granted, day } = budget.reservation;
        if (granted === 0 && budget.held + day.left < needed) throw tooMuch(leftMs);
      }
      await refillOnce(id, needed);
    }
  };

  api.addHook('preHandler', async (request) => {
    if (!stores(request)) return;
    const { organizationId } = callerOf(request);
    if (organizationId === null) return;
    const bytes = Math.min(bytesPerChange + request.bodyBytes, perDay);
    await take(organizationId, bytes);
    taken.set(request, bytes);
    const { context } = request;
    const count = (more: number) => sent.set(request, (sent.get(request) ?? 0) + more);
    request.context = { ...context, db: countBytes(context.db, count) };
  });
  api.addHook('onResponse', async (request, reply) => {
    const bytes = taken.get(request);
    if (bytes === undefined) return;
    const budget = budgets.get(callerOf(request).organizationId ?? '');
    if (!budget) return;
    // If it was refused, it has stored nothing. What it stored beyond the estimate, the next change has to make up for.
    const isRefused = reply.statusCode >= 400;
    budget.held -= isRefused ? -bytes : Math.max(0, (sent.get(request) ?? 0) - bytes);
  });
}

function stores({ method, routeOptions: { config } }: Request): boolean {
  const isChange = method !== 'GET' && method !== 'HEAD';
  return isChange && config.scope !== undefined && config.changesNothing !== true;
}

function tooMuch(leftMs: number): Throttled {
  const seconds = Math.max(1, Math.ceil(leftMs / 1_000));
  const detail = `The changes of this organization have stored as much as they may in a day. Try again in ${seconds} seconds, or ask your operator to raise MAX_STORED_MIB_PER_DAY.`;
  return new Throttled(detail, leftMs);
}
