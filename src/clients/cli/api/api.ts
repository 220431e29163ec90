import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { CliError, exitCodes } from '../deps.ts';
import { plain } from '../text.ts';
import { type Answer, explainAnswer, explainSilence } from './explain.ts';
import type {
  AdminPrefix,
  AnswerOf,
  Capabilities,
  Me,
  Method,
  PathOf,
  Plugin,
  QueryOf,
  Readiness,
} from './types.ts';

export interface CallOptions<M extends Method, Path extends PathOf<M>> {
  /** Values of the path's parameters, besides the project. */
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: QueryOf<M, Path>;
  readonly body?: unknown;
  /** Default: 30 seconds, for the whole answer. */
  readonly patienceMs?: number;
  /** Says what a 404 means. */
  readonly notFound?: string;
  /** The options that fields and query parameters come from, for messages: `start_at` → `--from`. */
  readonly optionOf?: Readonly<Record<string, string>>;
}

/** The API of one project. Every method throws CliError with what is wrong and what to do. */
export interface Api {
  readonly url: string;
  /** The project as it was asked for: an id or `@current`. */
  readonly project: string;
  call<M extends Method, Path extends PathOf<M>>(
    method: M,
    path: Path,
    options?: CallOptions<M, Path>,
  ): Promise<AnswerOf<M, Path>>;
  /** Reads an answer that is no JSON, such as CSV. */
  readText<Path extends PathOf<'get'>>(
    path: Path,
    options: CallOptions<'get', Path>,
  ): Promise<string>;
  /** Calls `/api/admin`, with the key of an operator. */
  callAdmin<M extends Method, Path extends PathOf<M, AdminPrefix>>(
    method: M,
    path: Path,
    options?: Omit<CallOptions<M, never>, 'query'> & {
      readonly query?: QueryOf<M, Path, AdminPrefix>;
    },
  ): Promise<AnswerOf<M, Path, AdminPrefix>>;
  /** What the key may do, and where. */
  readMe(): Promise<Me>;
  /** What exports can use in this installation. */
  readCapabilities(): Promise<Capabilities>;
  /** The plugins that steps of the project can use. */
  readPlugins(): Promise<readonly Plugin[]>;
  /** What the service's probe says of itself; needs no key. */
  readReadiness(): Promise<Readiness>;
  /** The OpenAPI document. */
  readDocument(): Promise<unknown>;
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

const patienceMs = 30_000;
/** The service may ask to wait, but not for ever. */
const longestWaitSeconds = 60;
const maxTries = 4;

/** Opens no connection. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: what all calls share
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

  const read = async (
    method: string,
    path: string,
    options: Pick<
      CallOptions<'get', PathOf<'get'>>,
      'body' | 'patienceMs' | 'notFound' | 'optionOf'
    > = {},
    accepts: (status: number) => boolean = (status) => status >= 200 && status < 300,
  ): Promise<unknown> => {
    const limitMs = options.patienceMs ?? patienceMs;
    const answer = await request(method, path, options.body, limitMs);
    if (accepts(answer.status) && (answer.json !== undefined || answer.status === 204)) {
      return answer.json ?? null;
    }
    const { notFound, optionOf } = options;
    throw explainAnswer(answer, { method, url: base, project, notFound, optionOf });
  };

  return {
    url: base,
    project,
    async call(method, path, options = {}) {
      const address = addressOf(`/api/projects/${encodeURIComponent(project)}${path}`, options);
      return (await read(method.toUpperCase(), address, options)) as never;
    },
    async readText(path, options) {
      const address = addressOf(`/api/projects/${encodeURIComponent(project)}${path}`, options);
      const answer = await request('GET', address, undefined, patienceMs);
      if (answer.status === 200) return answer.text;
      const { notFound, optionOf } = options;
      throw explainAnswer(answer, { method: 'GET', url: base, project, notFound, optionOf });
    },
    async callAdmin(method, path, options = {}) {
      const address = addressOf(`/api/admin${path}`, options);
      return (await read(method.toUpperCase(), address, options)) as never;
    },
    readReadiness: () =>
      read(
        'GET',
        '/readyz',
        {},
        (status) => status === 200 || status === 503,
      ) as Promise<Readiness>,
    readMe: () => read('GET', '/api/me') as Promise<Me>,
    readCapabilities: () => read('GET', '/api/capabilities') as Promise<Capabilities>,
    async readPlugins() {
      const path = `/api/projects/${encodeURIComponent(project)}/plugins?limit=1000&offset=`;
      return await readAll<Plugin>((offset) => read('GET', `${path}${offset}`) as never);
    },
    readDocument: () => read('GET', '/api/openapi.json'),
    serviceTime: () => serviceTime,
  };
}

/** The path with its parameters and its query. */
function addressOf(
  path: string,
  options: { readonly path?: Readonly<Record<string, string>>; readonly query?: unknown },
): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(options.path?.[name] ?? ''),
  );
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries((options.query ?? {}) as object)) {
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

/** The path with what a person wrote in it, for messages. */
export const quoted = (text: string): string => `"${plain(text)}"`;
