type Query = Readonly<Record<string, string | number | readonly string[] | null>>;

/** A request to the API, besides its path. */
export interface Call {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly query?: Query;
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}
