import type { AnswerOf, BodyOf, Method, PathOf, ValuesOf } from '../../../dist/api-schema.d.ts';
import type { BackfillRequest, BatchExport, Problem } from './api-types.ts';
import { isRecord, parseJson } from './json.ts';
import { repeatKeys } from './repeat-keys.ts';

/** An answer with an error, or no answer (status 0). */
export class ApiFailure extends Error {
  readonly status: number;
  readonly problems: readonly Problem[];
  readonly requestId: string | null;

  constructor(status: number, problems: readonly Problem[], requestId: string | null) {
    super(problems.map(({ detail }) => detail).join(' '));
    this.name = 'ApiFailure';
    this.status = status;
    this.problems = problems;
    this.requestId = requestId;
  }

  with(problems: readonly Problem[]): ApiFailure {
    return new ApiFailure(this.status, problems, this.requestId);
  }
}

/** The maximum wait of the page for an answer. A test of a destination or a preview takes longer than a read of our tables. */
const patienceMs = { read: 30_000, change: 90_000 };

function addressOf(path: string, project: string, given: object): string {
  const values = new Map<string, unknown>(Object.entries(given));
  const take = (name: string) => {
    const value = values.get(name) ?? (name === 'project_id' ? project : '@current');
    values.delete(name);
    return encodeURIComponent(String(value));
  };
  const whole = path.startsWith('/') ? path : `/api/projects/{project_id}/${path}`;
  const filled = whole.replaceAll(/\{(\w+)\}/g, (_, name: string) => take(name));
  const search = new URLSearchParams();
  for (const [name, value] of values) {
    if (value === null || value === '') continue;
    for (const one of [value].flat()) search.append(name, String(one));
  }
  return search.size > 0 ? `${filled}?${search}` : filled;
}

/** Answers of a key that the service can say are unchanged, by their addresses. Only in memory: they end with the tab. */
type Answers = Map<string, { readonly etag: string; readonly answer: unknown }>;
const keptAnswers = 30;

/** @throws ApiFailure, or an AbortError if `signal` aborted it */
async function callApi(
  { key, answers }: { readonly key: string; readonly answers: Answers },
  method: Method,
  url: string,
  body?: unknown,
  signal?: AbortSignal,
  keepsText = false,
): Promise<unknown> {
  const headers: Record<string, string> = { authorization: `Bearer ${key}` };
  const text = body === undefined ? null : JSON.stringify(body);
  if (text !== null) headers['content-type'] = 'application/json';
  const changes = method === 'post' && !isDryRun(body);
  const repeat = changes ? repeatKeys.of(url, text ?? '') : null;
  if (repeat) headers['idempotency-key'] = repeat.key;
  const isRead = method === 'get';
  const earlierAnswer = isRead ? answers.get(url) : undefined;
  if (earlierAnswer) headers['if-none-match'] = earlierAnswer.etag;
  const ends = new AbortController();
  const timer = setTimeout(() => ends.abort(), isRead ? patienceMs.read : patienceMs.change);
  const signals = AbortSignal.any(signal ? [signal, ends.signal] : [ends.signal]);
  try {
    const request = { method: method.toUpperCase(), headers, body: text, signal: signals };
    const response = await fetch(url, request);
    if (earlierAnswer && response.status === 304) return earlierAnswer.answer;
    const received = await response.text();
    if (response.ok || (response.status < 500 && response.status !== 409)) repeat?.forget();
    const isText = response.headers.get('content-type')?.startsWith('text/') === true;
    if (response.ok && keepsText) return received;
    const answer = isText ? received : (parseJson(received) ?? null);
    const etag = response.headers.get('etag');
    if (isRead) answers.delete(url);
    if (isRead && response.ok && etag !== null) {
      for (const oldest of answers.keys()) if (answers.size >= keptAnswers) answers.delete(oldest);
      answers.set(url, { etag, answer });
    }
    if (response.ok) return answer;
    const { problems, requestId } = readErrorBody(response.status, answer, isRead);
    throw new ApiFailure(response.status, problems, requestId);
  } catch (error) {
    if (error instanceof ApiFailure || signal?.aborted) throw error;
    const detail = explainLost(ends.signal.aborted, isRead);
    throw new ApiFailure(0, [{ code: 'error', detail, attr: null }], null);
  } finally {
    clearTimeout(timer);
  }
}

const isDryRun = (body: unknown): boolean => isRecord(body) && body.dry_run === true;

/**
 * The calls of a key. A path without a leading slash is below the project. The values are those of the path and of the query. All
 * calls throw ApiFailure.
 *
 * @param onRefused called if the key is no longer accepted
 */
export function connectApi(key: string, project: string, onRefused: () => void) {
  const caller = { key, answers: new Map() as Answers };
  const send = async (
    method: Method,
    path: string,
    values: object,
    body?: unknown,
    signal?: AbortSignal,
    keepsText = false,
  ): Promise<unknown> => {
    try {
      const address = addressOf(path, project, values);
      return await callApi(caller, method, address, body, signal, keepsText);
    } catch (error) {
      if (error instanceof ApiFailure && error.status === 401) onRefused();
      throw error;
    }
  };
  const changing =
    <M extends Method>(method: M) =>
    <Path extends PathOf<M>>(
      path: Path,
      values: ValuesOf<M, Path>,
      body?: BodyOf<M, Path>,
      signal?: AbortSignal,
    ) =>
      send(method, path, values as object, body, signal) as Promise<AnswerOf<M, Path>>;
  return {
    send,
    get: <Path extends PathOf<'get'>>(
      path: Path,
      values: ValuesOf<'get', Path>,
      signal?: AbortSignal,
    ) => send('get', path, values as object, undefined, signal) as Promise<AnswerOf<'get', Path>>,
    /** The answer as it is signed: it is not parsed. */
    getText: <Path extends PathOf<'get'>>(path: Path, values: ValuesOf<'get', Path>) =>
      send('get', path, values as object, undefined, undefined, true).then(String),
    post: changing('post'),
    patch: changing('patch'),
    remove: changing('delete'),
  };
}

export type Api = ReturnType<typeof connectApi>;

export function cursorOf(link: string | null): string | null {
  return link === null ? null : new URL(link).searchParams.get('cursor');
}

/** The first page of an offset list, with the results of all its pages. */
export async function wholeList<
  Page extends { readonly next: string | null; readonly results: readonly unknown[] },
>(
  readPage: (query: { readonly limit: number; readonly offset: number }) => Promise<Page>,
): Promise<Page> {
  const first = await readPage({ limit: 1_000, offset: 0 });
  const results = [...first.results];
  for (let { next } = first; next !== null; ) {
    const page = await readPage({ limit: 1_000, offset: results.length });
    results.push(...page.results);
    next = page.results.length > 0 ? page.next : null;
  }
  return { ...first, next: null, results };
}

/** Every step of the chain, and every plugin. */
export const listSteps = ({ get }: Api, signal: AbortSignal) =>
  wholeList((page) => get('pipeline_transformation_configs', page, signal));

export const startBackfill = async ({ post }: Api, id: string, body: BackfillRequest) =>
  (await post('batch_exports/{id}/backfill', { id }, body)) as BatchExport;

type Running = 'finish' | 'cancel';
export const cancelBackfill = ({ post }: Api, exportId: string, id: string, running: Running) => {
  const values = { batch_export_id: exportId, id };
  return post('batch_exports/{batch_export_id}/backfills/{id}/cancel', values, { running });
};

export const cancelRun = ({ post }: Api, exportId: string, id: string) =>
  post('batch_exports/{batch_export_id}/runs/{id}/cancel', { batch_export_id: exportId, id });

interface ErrorAnswer {
  readonly problems: readonly Problem[];
  readonly requestId: string | null;
}

/** The status explains a body that is not the API's but a proxy's. @param isRead whether it changed nothing */
export function readErrorBody(status: number, body: unknown, isRead: boolean): ErrorAnswer {
  const fallback = [{ code: 'error', detail: explainStatus(status, isRead), attr: null }];
  if (!isRecord(body)) return { problems: fallback, requestId: null };
  const listed = Array.isArray(body.errors) ? body.errors : [body];
  const problems = listed.map(readProblem).filter((problem) => problem !== null);
  const requestId = typeof body.request_id === 'string' ? body.request_id : null;
  return { problems: problems.length > 0 ? problems : fallback, requestId };
}

function readProblem(value: unknown): Problem | null {
  if (!isRecord(value) || typeof value.detail !== 'string') return null;
  // The page sends it by itself, so its name says nothing to the reader.
  if (value.attr === 'Idempotency-Key') {
    const detail = 'The first request of this change is still running. Try again in a moment.';
    return { code: 'conflict', detail, attr: null };
  }
  return {
    code: typeof value.code === 'string' ? value.code : 'error',
    detail: value.detail,
    attr: typeof value.attr === 'string' ? value.attr : null,
  };
}

/** The next step if it is not known whether a change was made. */
const mayBeDone =
  'What you asked for may have been done: look at the page before you try it again.';

function explainStatus(status: number, isRead: boolean): string {
  const what =
    status === 502 || status === 503 || status === 504
      ? 'The service is unavailable.'
      : `The service answered with status ${status}.`;
  return isRead || status < 500 ? what : `${what} ${mayBeDone}`;
}

/** Why there is no answer. @param isTooLate whether the page gave up waiting */
function explainLost(isTooLate: boolean, isRead: boolean): string {
  const what = isTooLate
    ? 'The service does not answer.'
    : 'The service is unreachable. Check your network.';
  return isRead ? what : `${what} ${mayBeDone}`;
}

/** Sorts problems: those of the fields by name, and all others. */
export function sortProblems(
  problems: readonly Problem[],
  fields: readonly string[],
): { readonly byField: ReadonlyMap<string, string>; readonly others: readonly Problem[] } {
  const byField = new Map<string, string>();
  const others: Problem[] = [];
  for (const problem of problems) {
    const field = fields.find((name) => isAt(problem.attr, name));
    if (field === undefined) others.push(problem);
    else byField.set(field, [byField.get(field), problem.detail].filter(Boolean).join(' '));
  }
  return { byField, others };
}

/** A problem of an item (`include_events__0`) belongs to the field of its list. */
function isAt(attr: string | null, field: string): boolean {
  return attr === field || (attr?.startsWith(`${field}__`) ?? false);
}

/** Splits `code: what happened and what to do`; a text without a code has code null. */
export function readRunError(text: string): {
  readonly code: string | null;
  readonly text: string;
} {
  const [, code = null, rest = text] = /^([a-z_]+\.[a-z_]+): (.+)$/s.exec(text) ?? [];
  return { code, text: rest };
}
