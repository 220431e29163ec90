import type { paths } from '../../../dist/api-schema.d.ts';

/** Paths of the OpenAPI document with a method, and its response. */
type PathOf<Method extends string> = {
  [Path in keyof paths]: paths[Path] extends Record<Method, unknown> ? Path : never;
}[keyof paths];
type Answer<Path extends keyof paths, Method extends string> =
  paths[Path] extends Record<Method, { responses: infer Responses }>
    ? Responses[keyof Responses & (200 | 201)] extends {
        content: { readonly 'application/json': infer Json };
      }
      ? Json
      : never
    : never;

/** The values of a path's parameters, by name. */
type Parameters = Readonly<Record<string, string | number>>;

/** The few calls of the quickstart. It uses the service over HTTP, like every client. */
export interface ApiClient {
  get<Path extends PathOf<'get'>>(
    path: Path,
    parameters: Parameters,
    query?: Readonly<Record<string, string>>,
  ): Promise<Answer<Path, 'get'>>;
  post<Path extends PathOf<'post'>>(
    path: Path,
    parameters: Parameters,
    body: unknown,
  ): Promise<Answer<Path, 'post'>>;
}

/** @throws Error with the answer's text if the status is not 2xx */
export function createApiClient(address: string, key: string): ApiClient {
  const call = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const response = await fetch(`${address}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`);
    return JSON.parse(text) as T;
  };
  const fill = (path: string, parameters: Parameters) =>
    path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(parameters[name] ?? ''));
  return {
    get: (path, parameters, query = {}) =>
      call('GET', `${fill(path, parameters)}?${new URLSearchParams(query)}`),
    post: (path, parameters, body) => call('POST', fill(path, parameters), body),
  };
}
