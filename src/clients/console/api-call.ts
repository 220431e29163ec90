import type { Problem } from './api-types.ts';
import { isRecord, parseJson } from './json.ts';
import { explainLost, readErrorBody } from './problems.ts';
import { repeatKeys } from './repeat-keys.ts';

type Query = Readonly<Record<string, string | number | readonly string[] | null>>;

/** A request to the API, besides its path. */
export interface Call {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly query?: Query;
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

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
}

/** How long the page waits for an answer. A test of a destination or a preview takes longer than what only reads our tables. */
const patienceMs = { read: 30_000, change: 90_000 };

/** @throws ApiFailure, or an AbortError if `signal` aborted it */
export async function callApi<T>(key: string, path: string, call: Call = {}): Promise<T> {
  const { method = 'GET', query = {}, body, signal } = call;
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === '') continue;
    for (const one of [value].flat()) search.append(name, String(one));
  }
  const headers: Record<string, string> = { authorization: `Bearer ${key}` };
  const text = body === undefined ? null : JSON.stringify(body);
  if (text !== null) headers['content-type'] = 'application/json';
  const changes = method === 'POST' && !isDryRun(body);
  const repeat = changes ? repeatKeys.of(path, text ?? '') : null;
  if (repeat) headers['idempotency-key'] = repeat.key;
  const isRead = method === 'GET';
  const ends = new AbortController();
  const timer = setTimeout(() => ends.abort(), isRead ? patienceMs.read : patienceMs.change);
  const url = search.size > 0 ? `${path}?${search}` : path;
  const signals = AbortSignal.any(signal ? [signal, ends.signal] : [ends.signal]);
  try {
    const response = await fetch(url, { method, headers, body: text, signal: signals });
    const received = await response.text();
    if (response.ok || (response.status < 500 && response.status !== 409)) repeat?.forget();
    const isText = response.headers.get('content-type')?.startsWith('text/') === true;
    const answer = isText ? received : (parseJson(received) ?? null);
    if (response.ok) return answer as T;
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

/** @param onRefused called if the key is no longer accepted */
export function senderOf(key: string, onRefused: () => void) {
  return async <T>(path: string, options?: Call): Promise<T> => {
    try {
      return await callApi<T>(key, path, options);
    } catch (error) {
      if (error instanceof ApiFailure && error.status === 401) onRefused();
      throw error;
    }
  };
}
