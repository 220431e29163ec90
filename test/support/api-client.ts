/** An answer of the API, its body read. */
export interface ApiAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The JSON of the body; an empty object if there is none. */
  readonly body: WireBody;
}

/** What tests look into, of whatever came back. */
export interface WireBody {
  readonly id: string;
  readonly count: number;
  readonly next: string | null;
  readonly previous: string | null;
  readonly results: readonly WireBody[];
  readonly latest_runs: readonly WireBody[];
  readonly destination: { readonly type: string; readonly config: Record<string, unknown> };
  readonly created_at: string;
  readonly type: string;
  readonly code: string;
  readonly detail: string;
  readonly attr: string | null;
  readonly errors: readonly {
    readonly code: string;
    readonly attr: string | null;
    readonly detail: string;
  }[];
  readonly request_id: string;
  readonly [name: string]: unknown;
}

export interface ApiRequest {
  readonly body?: unknown;
  /** Sent as it is, in place of `body`. */
  readonly raw?: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A client that knows HTTP and nothing of our code. */
export interface ApiClient {
  readonly baseUrl: string;
  get(path: string, request?: ApiRequest): Promise<ApiAnswer>;
  post(path: string, body?: unknown, request?: ApiRequest): Promise<ApiAnswer>;
  patch(path: string, body?: unknown, request?: ApiRequest): Promise<ApiAnswer>;
  put(path: string, body?: unknown, request?: ApiRequest): Promise<ApiAnswer>;
  delete(path: string, request?: ApiRequest): Promise<ApiAnswer>;
  send(method: string, path: string, request?: ApiRequest): Promise<ApiAnswer>;
  /** The same service, with another key; null sends none. */
  withKey(key: string | null): ApiClient;
}

export function createApiClient(baseUrl: string, key: string | null): ApiClient {
  const send = async (
    method: string,
    path: string,
    { body, raw, headers = {} }: ApiRequest = {},
  ): Promise<ApiAnswer> => {
    const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    const response = await fetch(new URL(path, baseUrl), {
      method,
      redirect: 'manual',
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(payload === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(payload === undefined ? {} : { body: payload }),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json') && text !== '';
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: isJson ? JSON.parse(text) : {},
    };
  };
  return {
    baseUrl,
    send,
    get: (path, request) => send('GET', path, request),
    post: (path, body, request) => send('POST', path, { ...request, body }),
    patch: (path, body, request) => send('PATCH', path, { ...request, body }),
    put: (path, body, request) => send('PUT', path, { ...request, body }),
    delete: (path, request) => send('DELETE', path, request),
    withKey: (other) => createApiClient(baseUrl, other),
  };
}
