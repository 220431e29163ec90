/** A fault of a source, and its line, from 1. */
export interface SourceProblem {
  readonly line: number | null;
  readonly detail: string;
}
