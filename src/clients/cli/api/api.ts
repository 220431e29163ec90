import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { CliError, exitCodes, type Terminal } from '../deps.ts';
import { plain } from '../text.ts';
import { type Answer, explainAnswer, explainSilence } from './explain.ts';
import type { Json } from './json.ts';
import type { AnswerOf, Method, PathOf, QueryOf } from './types.ts';

export interface CallOptions<Query = unknown> {
  readonly path?: Json;
  readonly query?: Query;
  readonly body?: unknown;
  /** Default: 30 seconds, for the whole answer. */
  readonly patienceMs?: number;
  /** Says what a 404 means; `{id}` is the value of the path. */
  readonly notFound?: string | undefined;
  /** The options that fields and query parameters come from, for messages: `start_at` → `--from`. */
  readonly optionOf?: Readonly<Record<string, string>>;
  readonly accepts?: number;
  /** The answer is no JSON, such as CSV. */
  readonly isText?: boolean;
}

/** The API of one project. Every method throws CliError with what is wrong and what to do. */
export interface Api {
  readonly url: string;
  /** The project as it was asked for: an id or `@current`. */
  readonly project: string;
  /** @param path a path of the API, or what follows the project in it: `batch_exports/{id}` */
  call<M extends Method, Path extends PathOf<M>>(
    method: M,
    path: Path,
    options?: CallOptions<QueryOf<M, Path>>,
  ): Promise<AnswerOf<M, Path>>;
  /** Calls a path that the program does not know when it is compiled. */
  send(method: Method, path: string, options?: CallOptions): Promise<unknown>;
  /** Milliseconds since the epoch by the service's clock, as of its last answer; null before it. */
  serviceTime(): number | null;
}

export interface Connection {
  readonly url: string;
  readonly key: string;
  readonly project: string;
  readonly signal: AbortSignal;
  /** Called before a wait that the service asked for. */
  readonly onWait: (seconds: number) => void;
}

const parameter = /\{(\w+)\}/g;
const patienceMs = 30_000;
/** The service may ask to wait, but not for ever. */
const longestWaitSeconds = 60;
const maxTries = 4;

/** Opens no connection. */
export function connectApi({ url, key, project, signal, onWait }: Connection): Api {
  const base = url.replace(/\/+$/, '');
  let serviceTime: number | null = null;

  const request = async (method: string, path: string, body: unknown, limitMs: number) => {
    const headers: Record<string, string> = { authorization: `Bearer ${key}` };
    if (body !== undefined) headers['content-type'] = 'application/json';
    // Each try has the same key: an answer that was lost is given again, and nothing is done twice.
    if (method === 'POST') headers['idempotency-key'] = randomUUID();
    for (let tries = 1; ; tries += 1) {
      const answer = await fetchAnswer(`${base}${path}`, {
        method,
        headers,
        body: body === undefined ? null : JSON.stringify(body),
        // The key must not go to another address.
        redirect: 'manual',
        signal: AbortSignal.any([signal, AbortSignal.timeout(limitMs)]),
      }).catch((error: unknown) => {
        signal.throwIfAborted();
        throw new CliError(explainSilence(base, error, limitMs), exitCodes.unreachable);
      });
      const date = Date.parse(answer.headers.get('date') ?? '');
      if (!Number.isNaN(date)) serviceTime = date;
      const seconds = Number(answer.headers.get('retry-after') ?? Number.NaN);
      const asksToWait = (answer.status === 429 || answer.status === 503) && seconds >= 0;
      if (!asksToWait || seconds > longestWaitSeconds || tries === maxTries) return answer;
      onWait(seconds);
      await sleep(seconds * 1_000, undefined, { signal });
    }
  };

  const send: Api['send'] = async (method, path, options = {}) => {
    const { body, optionOf, accepts, isText = false, path: values = {} } = options;
    const whole = path.startsWith('/') ? path : `/api/projects/{project_id}/${path}`;
    const address = addressOf(whole, { project_id: project, ...values }, options.query);
    const verb = method.toUpperCase();
    const answer = await request(verb, address, body, options.patienceMs ?? patienceMs);
    const { status, json, text } = answer;
    const isWell = (status >= 200 && status < 300) || status === accepts;
    if (isWell && isText) return text;
    if (isWell && (json !== undefined || status === 204)) return json ?? null;
    const notFound = options.notFound?.replaceAll(parameter, (_, name) => String(values[name]));
    throw explainAnswer(answer, { method: verb, url: base, project, notFound, optionOf });
  };
  return {
    url: base,
    project,
    send,
    call: async (method, path, options) => (await send(method, path, options)) as never,
    serviceTime: () => serviceTime,
  };
}

function addressOf(path: string, values: Json, query: unknown): string {
  const filled = path.replaceAll(parameter, (_, name: string) =>
    encodeURIComponent(String(values[name] ?? '')),
  );
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries((query ?? {}) as object)) {
    for (const one of [value].flat()) {
      if (one !== undefined && one !== null) search.append(name, String(one));
    }
  }
  return search.size > 0 ? `${filled}?${search}` : filled;
}

async function fetchAnswer(address: string, init: RequestInit): Promise<Answer> {
  const response = await fetch(address, init);
  const { status, headers } = response;
  const text = await response.text();
  try {
    return { status, headers, text, json: JSON.parse(text) as unknown };
  } catch {
    return { status, headers, text, json: undefined };
  }
}

/** Every item of a list with offsets, each once: items may move while pages are read. */
export async function readAll<Item extends { readonly id: string | number }>(
  readPage: (offset: number) => Promise<{
    readonly next: string | null;
    readonly results: readonly Item[];
  }>,
): Promise<readonly Item[]> {
  const items = new Map<string | number, Item>();
  let offset = 0;
  for (;;) {
    const { next, results } = await readPage(offset);
    for (const item of results) items.set(item.id, item);
    offset += results.length;
    if (next === null || results.length === 0) return [...items.values()];
  }
}

/** The newest items of a cursor list, at most `limit`. */
export async function readNewest<Item>(
  limit: number,
  readPage: (page: { limit: number; cursor?: string }) => Promise<{
    readonly next: string | null;
    readonly results: readonly Item[];
  }>,
): Promise<readonly Item[]> {
  const items: Item[] = [];
  let cursor: string | null = null;
  do {
    const size = Math.min(1_000, limit - items.length);
    const page = await readPage({ limit: size, ...(cursor !== null && { cursor }) });
    items.push(...page.results);
    cursor = page.next === null ? null : new URL(page.next).searchParams.get('cursor');
  } while (cursor !== null && items.length < limit);
  return items;
}

const pauseMs = 1_000;
/** A minute: longer than a restart or a failover takes. */
const maxAsks = 60;

/** For a command that waits: a service that restarts must not end it, unless it is unreachable for a minute. */
export async function keepAsking<T>({ err, signal }: Terminal, ask: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      const isUnreachable = error instanceof CliError && error.exitCode === exitCodes.unreachable;
      if (!isUnreachable || tries === maxAsks) throw error;
      if (tries === 1) err(`${error.message} Asking again for a minute …\n`);
      await sleep(pauseMs, undefined, { signal });
    }
  }
}

/** The path with what a person wrote in it, for messages. */
export const quoted = (text: string): string => `"${plain(text)}"`;
