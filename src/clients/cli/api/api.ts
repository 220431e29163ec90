import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { CliError, exitCodes, isMisuse, type Terminal } from '../deps.ts';
import { plain, plural } from '../text.ts';
import { isRecord, type Json } from './json.ts';
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

interface Connection {
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

/** The answer of the service; `json` is undefined if the body is not JSON. */
interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly json: unknown;
  readonly text: string;
}

interface Called {
  readonly method: string;
  readonly url: string;
  readonly project: string;
  readonly notFound: string | undefined;
  readonly optionOf: Readonly<Record<string, string>> | undefined;
}

interface Problem {
  readonly attr: string | null;
  readonly code: string | null;
  readonly detail: string;
}

export class RefusedRequest extends CliError {
  readonly status: number;
  /** The field that the first problem is about; null: none. */
  readonly attr: string | null;

  constructor(message: string, status: number, attr: string | null, exitCode?: number) {
    super(message, exitCode);
    this.status = status;
    this.attr = attr;
  }
}

/** One line for each problem, and what to do. */
function explainAnswer(answer: Answer, called: Called): CliError {
  const { status, json, headers } = answer;
  const problems = problemsOf(json);
  const [first] = problems;
  if (!first) return notSluice(answer, called);
  const requestId = textOf(json, 'request_id');
  if (status === 401) {
    return new CliError(
      `SLUICE_KEY: ${first.detail} Set SLUICE_KEY to a key of ${called.url}. \`sluice keys create --organization <id> --scopes '*' --name <name>\` issues one.`,
      exitCodes.refused,
    );
  }
  if (status === 403) return new CliError(explainRefusal(first.detail, called), exitCodes.refused);
  if (status === 404) {
    const said = called.notFound ?? `${first.detail} Check the id.`;
    return new RefusedRequest(`${said}${pathHint(called.url)}`, status, null);
  }
  if (status === 429) {
    const wait = headers.get('retry-after');
    const when = wait === null ? 'Try again later.' : `Try again in ${plain(wait)} s.`;
    return new CliError(
      `${first.detail.replace(/ Try again.*$/, '')} ${when}`,
      exitCodes.unreachable,
    );
  }
  if (status >= 500) {
    const report = requestId === null ? '' : ` Its log has it under request ${requestId}.`;
    return new CliError(`${called.url}: ${first.detail}${report}`, exitCodes.unreachable);
  }
  const lines = problems.map(({ attr, detail }) =>
    attr === null ? detail : `${typedName(attr, called)}: ${detail}`,
  );
  const exitCode = isOfOptions(problems, called) ? exitCodes.misused : exitCodes.failed;
  return new RefusedRequest(lines.join('\n'), status, first.attr, exitCode);
}

/** Says whether all is wrong usage: values of options that no service would take. */
function isOfOptions(problems: readonly Problem[], { method, optionOf = {} }: Called): boolean {
  return problems.every(({ attr, code }) => {
    const isOption = attr !== null && Object.hasOwn(optionOf, firstOf(attr));
    // A filter depends on nothing that is stored.
    return isOption && (method === 'GET' || isMisuse({ code }));
  });
}

const firstOf = (attr: string): string => attr.split('.')[0] ?? attr;

/** The place of the value as the person wrote it: an option, or a field of a file. */
function typedName(attr: string, { optionOf }: Called): string {
  return optionOf?.[firstOf(attr)] ?? attr;
}

function explainRefusal(detail: string, { project }: Called): string {
  if (detail.startsWith('@current')) {
    return detail.replace('Use the id of one in the path:', 'Name one with --project:');
  }
  if (detail.includes('no access to the project')) {
    return `--project ${plain(project)}: ${detail} Use the id of one of the key's projects, or a key that has access.`;
  }
  return `SLUICE_KEY: ${detail}${keyHint(detail)}`;
}

/** Adds words that the service does not know: the commands of this program. */
function keyHint(detail: string): string {
  const [, scope] = /the scope ([\w:]+)/.exec(detail) ?? [];
  if (scope !== undefined) {
    return scope.startsWith('operator:')
      ? ` Use a key that has it. \`sluice keys create --operator --scopes ${scope} --name <name>\` issues one.`
      : ` Use a key that has it. \`sluice keys create --organization <id> --scopes ${scope} --name <name>\` issues one.`;
  }
  if (detail.startsWith('This is the key of an operator')) {
    return ' `sluice status --all`, `sluice causes`, `sluice organizations`, `projects` and `keys` take the key of an operator.';
  }
  return detail.includes('no access') ? ' Use a key that has access.' : '';
}

/** The path of an address is a likely cause of a 404; a proxy may need it. */
function pathHint(url: string): string {
  const { pathname, origin } = new URL(url);
  return pathname === '/'
    ? ''
    : ` SLUICE_URL has the path ${plain(pathname)}: set it to ${origin}, unless a proxy serves Sluice below that path.`;
}

function notSluice({ status, headers }: Answer, { url }: Called): CliError {
  const target = headers.get('location');
  const redirectText = target === null ? '' : `, a redirect to ${plain(target)}`;
  return new CliError(
    `SLUICE_URL: ${url} does not answer as Sluice does (status ${status}${redirectText}). Set it to the address of the API, such as http://127.0.0.1:8000.`,
    exitCodes.unreachable,
  );
}

function explainSilence(url: string, error: unknown, limitMs: number): string {
  const start = 'Start the service, or correct SLUICE_URL.';
  if (error instanceof Error && error.name === 'TimeoutError') {
    return `SLUICE_URL: ${url} did not answer within ${plural(limitMs / 1_000, 'second')}. ${start}`;
  }
  const cause = error instanceof Error ? error.cause : undefined;
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  const reason = code || (cause instanceof Error ? cause.message : String(error));
  return `SLUICE_URL: ${url} is unreachable (${plain(reason)}). ${start}`;
}

/** The problems of an error's body; `destination__config__prefix` → `destination.config.prefix`. */
function problemsOf(json: unknown): readonly Problem[] {
  const listed = isRecord(json) && Array.isArray(json.errors) ? json.errors : [json];
  return listed.flatMap((problem: unknown): Problem[] => {
    const detail = textOf(problem, 'detail');
    if (detail === null || textOf(json, 'code') === null) return [];
    const attr = textOf(problem, 'attr')?.replaceAll('__', '.') ?? null;
    return [{ detail, attr, code: textOf(problem, 'code') }];
  });
}

function textOf(json: unknown, name: string): string | null {
  const value = isRecord(json) ? json[name] : undefined;
  return typeof value === 'string' ? plain(value) : null;
}
