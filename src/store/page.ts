/** A page of an offset list: which one, and what it holds. */
export interface PageRequest {
  readonly limit: number;
  readonly offset: number;
}

export interface OffsetPage<T> {
  /** Rows in all, whatever the page. */
  readonly count: number;
  readonly results: readonly T[];
}
