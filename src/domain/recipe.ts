/** The settings that made the files of an interval, kept to check them after the export has changed. */
export interface Recipe {
  readonly format: string;
  readonly compression: string | null;
  /** See FileSettings; absent: false. */
  readonly csvFormulaGuard?: boolean;
  readonly dslQuery: string | null;
  readonly includeEvents: readonly string[] | null;
  readonly excludeEvents: readonly string[] | null;
}
