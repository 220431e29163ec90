import { Throttled } from '../../../foundation/domain/problem.ts';
import { countBytes } from '../../../state/store/database/counted.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { reserveFromBudget, type Taken } from '../../../state/store/tenants/budgets.ts';
import { type Api, callerOf, type Reply, type Request } from '../api.ts';
import { networkOf } from '../connections.ts';
import { ApiError } from '../errors.ts';

type Span = 'minute' | 'hour' | 'day';

/** A process may let this through for one owner, until the shortest window ends. */
interface Budget<Spans extends Span> {
  held: number;
  readonly reservation: Taken<Spans>;
  /** On this process' steady clock, milliseconds. */
  readonly endsAt: Readonly<Record<Spans, number>>;
}

interface Answer {
  readonly isTaken: boolean;
  /** The rest of the budget, as far as this process knows. */
  readonly left: number;
  /** Until the window ends that has too little left; else the first one. */
  readonly endsInMs: number;
}

/**
 * Counts what owners use up in windows of time, over all API processes. Each process reserves a share of what is left and
 * allows no more than it reserved. A refusal costs no query.
 */
class Budgets<Spans extends Span> {
  readonly #budgets = new Map<string, Budget<Spans>>();
  readonly #pending = new Map<string, Promise<void>>();
  readonly #reserve: (owner: string, needed: number) => Promise<Taken<Spans>>;
  readonly #spans: readonly Spans[];

  /** @param share of what is left, that a process reserves at a time */
  constructor(db: Sql, limits: Readonly<Record<Spans, number>>, share: number) {
    this.#reserve = (owner, needed) => reserveFromBudget(db, owner, limits, needed, share);
    this.#spans = Object.keys(limits) as Spans[];
  }

  async take(owner: string, amount: number): Promise<Answer> {
    for (;;) {
      const budget = this.#budgets.get(owner);
      if (budget && this.#heldIn(budget) >= amount) {
        budget.held -= amount;
        return this.#answer(budget, amount, true);
      }
      if (budget && budget.reservation.granted === 0) {
        const answer = this.#answer(budget, amount, false);
        if (answer.left < amount && answer.endsInMs > 0) return answer;
      }
      await this.#refillOnce(owner, amount);
    }
  }

  /** Corrects what was taken: gives it back, or takes more than is there. */
  give(owner: string, amount: number): void {
    const budget = this.#budgets.get(owner);
    if (budget) budget.held += amount;
  }

  #answer(budget: Budget<Spans>, amount: number, isTaken: boolean): Answer {
    const { held, reservation, endsAt } = budget;
    const leftIn = (span: Spans) => held + reservation[span].left;
    const [first] = this.#spans;
    const span = this.#spans.findLast((each) => leftIn(each) < amount) ?? first;
    if (span === undefined) throw new Error('a budget without a window');
    const endsInMs = endsAt[span] - performance.now();
    return { isTaken, left: Math.min(...this.#spans.map(leftIn)), endsInMs };
  }

  /** Concurrent requests wait for one refill. */
  #refillOnce(owner: string, amount: number): Promise<void> {
    const running =
      this.#pending.get(owner) ??
      this.#refill(owner, amount).finally(() => this.#pending.delete(owner));
    this.#pending.set(owner, running);
    return running;
  }

  async #refill(owner: string, amount: number): Promise<void> {
    const needed = Math.max(1, amount - this.#heldIn(this.#budgets.get(owner)));
    const reservation = await this.#reserve(owner, needed);
    const now = performance.now();
    const ends = this.#spans.map((span) => [span, now + reservation[span].endsInMs]);
    // Requests that came meanwhile may have used some.
    const held = this.#heldIn(this.#budgets.get(owner)) + reservation.granted;
    for (const [other, { endsAt }] of this.#budgets) {
      if (this.#spans.every((span) => endsAt[span] <= now)) this.#budgets.delete(other);
    }
    this.#budgets.set(owner, { held, reservation, endsAt: Object.fromEntries(ends) });
  }

  #heldIn(budget: Budget<Spans> | undefined): number {
    const [shortest] = this.#spans;
    if (!budget || shortest === undefined) return 0;
    return performance.now() < budget.endsAt[shortest] ? budget.held : 0;
  }
}

/** Counts a request of a key, and sets the headers of its limit. @throws ApiError 429 */
export type TakeRequest = (keyId: string, reply: Reply, cost?: number) => Promise<void>;

/** So many bytes of a body cost as much as a request. */
const bytesPerRequest = 16 * 1024;
/** So many results of a page are included in a request; so many more cost another one. */
const resultsIncluded = 100;
const resultsPerRequest = 250;
/** The largest body. One over the limit is refused unread. */
const maxBody = 2 ** 20;

/** A request that costs more counts as several: by its route, its body and the page that it asks for. */
export function limitRequests(api: Api, takeRequest: TakeRequest): void {
  api.decorateRequest('bodyBytes', 0);
  api.addHook('onRequest', async (request, reply) => {
    const { caller, routeOptions } = request;
    if (caller === undefined) return;
    const cost = (routeOptions.config.cost ?? 1) + costOfBytes(announcedBytes(request));
    await takeRequest(caller.id, reply, cost + costOfPage(request));
  });
  api.addHook('preValidation', async (request, reply) => {
    const { caller, bodyBytes } = request;
    // Only a body whose length was not announced.
    const cost = costOfBytes(bodyBytes) - costOfBytes(announcedBytes(request));
    if (caller !== undefined && cost > 0) await takeRequest(caller.id, reply, cost);
  });
}

const costOfBytes = (bytes: number): number => Math.floor(bytes / bytesPerRequest);

function announcedBytes({ headers }: Request): number {
  const announced = Number(headers['content-length'] ?? 0);
  return announced <= maxBody ? announced : 0;
}

function costOfPage({ query }: Request): number {
  const limit = Number((query as { limit?: string }).limit ?? 0);
  const more = Math.min(limit, 1_000) - resultsIncluded;
  return more > 0 ? Math.ceil(more / resultsPerRequest) : 0;
}

/** The limit of each key. A request that costs more than a whole window costs the whole window. */
export function createRequestLimit(
  db: Sql,
  { perMinute, perHour }: { readonly perMinute: number; readonly perHour: number },
): TakeRequest {
  const budgets = new Budgets(db, { minute: perMinute, hour: perHour }, 1 / 16);
  return async (keyId, reply, asked = 1) => {
    const cost = Math.min(asked, perMinute, perHour);
    const { isTaken, left, endsInMs } = await budgets.take(keyId, cost);
    const seconds = secondsOf(endsInMs);
    // The fields of the IETF draft `ratelimit-headers`, version 6.
    const headers = {
      'ratelimit-limit': String(perMinute),
      'ratelimit-remaining': String(Math.max(0, left)),
      'ratelimit-reset': String(seconds),
      'ratelimit-policy': `${perMinute};w=60, ${perHour};w=3600`,
    };
    if (isTaken) {
      reply.headers(headers);
      return;
    }
    const detail = `Too many requests. Try again in ${seconds} ${seconds === 1 ? 'second' : 'seconds'}.`;
    const problem = { code: 'throttled', detail, attr: null } as const;
    throw new ApiError(429, problem, { ...headers, 'retry-after': String(seconds) });
  };
}

const secondsOf = (ms: number): number => Math.max(1, Math.ceil(ms / 1_000));

/** The least bytes that a change counts as: rows have columns of their own. */
const bytesPerChange = 2 * 1024;

/**
 * Limits what the changes of an organization store in a day. What they delete is kept for a while, so it counts too. The values that the
 * database gets are counted: the change, its record in the activity, the answer that an Idempotency-Key keeps.
 */
export function limitStoredBytes(api: Api, db: Sql, perDay: number): void {
  const budgets = new Budgets(db, { day: perDay }, 1 / 256);
  const taken = new WeakMap<Request, number>();
  const sent = new WeakMap<Request, number>();

  api.addHook('preHandler', async (request) => {
    if (!stores(request)) return;
    const { organizationId } = callerOf(request);
    if (organizationId === null) return;
    const bytes = Math.min(bytesPerChange + request.bodyBytes, perDay);
    const { isTaken, endsInMs } = await budgets.take(organizationId, bytes);
    if (!isTaken) {
      const detail = `The changes of this organization have stored as much as they may in a day. Try again in ${secondsOf(endsInMs)} seconds, or ask your operator to raise MAX_STORED_MIB_PER_DAY.`;
      throw new Throttled(detail, endsInMs);
    }
    taken.set(request, bytes);
    const { context } = request;
    const count = (more: number) => sent.set(request, (sent.get(request) ?? 0) + more);
    request.context = { ...context, db: countBytes(context.db, count) };
  });
  api.addHook('onResponse', async (request, reply) => {
    const bytes = taken.get(request);
    if (bytes === undefined) return;
    // If it was refused, it has stored nothing. What it stored beyond the estimate, the next change has to make up for.
    const isRefused = reply.statusCode >= 400;
    const back = isRefused ? bytes : Math.min(0, bytes - (sent.get(request) ?? 0));
    budgets.give(callerOf(request).organizationId ?? '', back);
  });
}

function stores({ method, routeOptions: { config } }: Request): boolean {
  const isChange = method !== 'GET' && method !== 'HEAD';
  return isChange && config.scope !== undefined && config.changesNothing !== true;
}

/** Bytes that clients make this process keep: bodies that are not complete, and answers that are not taken. */
export interface HeldLimits {
  /** The limit of one organization; without a key, of one address. */
  readonly perOwner: number;
  readonly inAll: number;
}

const mebibyte = 2 ** 20;
const usual: HeldLimits = { perOwner: 24 * mebibyte, inAll: 96 * mebibyte };

/**
 * Bounds the memory of requests that do not end and of answers that their clients do not read. What a request has
 * changed is always answered: if an organization holds too much already, its requests are refused before they change
 * anything.
 */
export function boundHeldBytes(api: Api, limits: HeldLimits = usual): void {
  const held = new Map<string, number>();
  const releases = new WeakMap<Request, () => void>();
  let all = 0;
  const count = (owner: string, bytes: number) => {
    all += bytes;
    const own = (held.get(owner) ?? 0) + bytes;
    if (own === 0) held.delete(owner);
    else held.set(owner, own);
  };
  /** @throws Throttled; one body or answer of an owner is always taken */
  const hold = (request: Request, bytes: number, mayRefuse: boolean) => {
    releases.get(request)?.();
    const owner = ownerOf(request);
    const own = held.get(owner) ?? 0;
    const isTooMuch = own + bytes > limits.perOwner || all + bytes > limits.inAll;
    if (isTooMuch && own > 0 && mayRefuse) throw heldTooMuch();
    count(owner, bytes);
    const release = () => {
      if (releases.get(request) !== release) return;
      releases.delete(request);
      count(owner, -bytes);
    };
    releases.set(request, release);
  };

  api.addHook('onRequest', (request, reply, done) => {
    reply.raw.once('close', () => releases.get(request)?.());
    // A body that does not announce its length counts as the largest one.
    const isOpen = request.headers['transfer-encoding'] !== undefined;
    const bytes = isOpen ? maxBody : announcedBytes(request);
    const isFull = (held.get(ownerOf(request)) ?? 0) >= limits.perOwner;
    if (isFull) return done(heldTooMuch());
    if (bytes > 0) hold(request, bytes, true);
    done();
  });
  api.addHook('preValidation', (request, _reply, done) => {
    releases.get(request)?.();
    done();
  });
  api.addHook('onSend', (request, reply, payload, done) => {
    // Buffers of ours are prepared once, for all their clients.
    if (typeof payload !== 'string') return done(null, payload);
    const { method, raw, routeOptions } = request;
    if (raw.socket.destroyed) return done(null, payload);
    const changesNothing = method === 'GET' || routeOptions.config.changesNothing === true;
    hold(request, Buffer.byteLength(payload), changesNothing && reply.statusCode < 400);
    done(null, payload);
  });
}

const ownerOf = ({ caller, ip }: Request): string => caller?.organizationId ?? networkOf(ip);

const heldTooMuch = () =>
  new Throttled(
    'Too many answers are not read yet, or too many bodies are not complete. Read the answers, send the bodies, or ask for smaller pages.',
    5_000,
  );
