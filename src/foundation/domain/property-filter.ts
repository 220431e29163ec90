/** The value that a filter compares with; null for operators that need no value. */
export type FilterValue = string | number | boolean | null;

/** A condition on a property, as clients of PostHog's batch exports write it. */
export interface PropertyFilter {
  readonly key: string;
  /** Default: `exact`. */
  readonly operator?: string | undefined;
  /** `event` (default) or `person`. */
  readonly type?: string | undefined;
  readonly value?: FilterValue | readonly FilterValue[] | undefined;
  readonly label?: string | undefined;
}
