/** What the files of an interval were made by: enough to check them after their export has changed. */
export interface Recipe {
  readonly format: string;
  readonly compression: string | null;
  readonly dslQuery: string | null;
  readonly includeEvents: readonly string[] | null;
  readonly excludeEvents: readonly string[] | null;
}
