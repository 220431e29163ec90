import type { components, paths } from './schema.js';

export type { components, paths } from './schema.js';
/** The shapes of the API by name: `Schemas['BatchExport']`. */
export type Schemas = components['schemas'];

export interface ClientOptions {
  /** Address of the API: `http://127.0.0.1:8000`. */
  readonly url: string;
  /** An API key. */
  readonly key: string;
  /** In place of the global one. */
  readonly fetch?: typeof globalThis.fetch;
}

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
type PathWith<M extends Method> = {
  [Path in keyof paths]: paths[Path] extends Record<M, unknown> ? Path : never;
}[keyof paths];
type OperationOf<M extends Method, Path extends keyof paths> =
  paths[Path] extends Record<M, infer Operation> ? Operation : never;

type JsonOf<Answer> = Answer extends { content: { readonly 'application/json': infer Json } }
  ? Json
  : null;
type DataOf<Operation> = Operation extends { responses: infer Responses }
  ? JsonOf<Responses[keyof Responses & (200 | 201 | 204)]>
  : never;

type ParametersOf<Operation> = Operation extends { parameters: infer Parameters }
  ? { readonly params: Parameters }
  : { readonly params?: undefined };
type BodyOf<Operation> = Operation extends {
  requestBody: { content: { 'application/json': infer Body } };
}
  ? { readonly body: Body }
  : Operation extends { requestBody?: { content: { 'application/json': infer Body } } }
    ? { readonly body?: Body }
    : { readonly body?: undefined };
type Init<Operation> = ParametersOf<Operation> &
  BodyOf<Operation> & {
    readonly headers?: Readonly<Record<string, string>>;
    readonly signal?: AbortSignal;
  };
/** The second argument, which may be left out if nothing in it is required. */
type Arguments<Operation> =
  Record<string, never> extends Init<Operation>
    ? [init?: Init<Operation>]
    : [init: Init<Operation>];

/** Either `data` or `error`. */
export type Result<Operation> =
  | { readonly data: DataOf<Operation>; readonly error?: undefined; readonly response: Response }
  | { readonly data?: undefined; readonly error: Schemas['Error']; readonly response: Response };

type Call<M extends Method> = <Path extends PathWith<M>>(
  path: Path,
  ...init: Arguments<OperationOf<M, Path>>
) => Promise<Result<OperationOf<M, Path>>>;

export interface Client {
  readonly GET: Call<'get'>;
  readonly POST: Call<'post'>;
  readonly PUT: Call<'put'>;
  readonly PATCH: Call<'patch'>;
  readonly DELETE: Call<'delete'>;
}

/** Opens no connection. */
export declare function createClient(options: ClientOptions): Client;
