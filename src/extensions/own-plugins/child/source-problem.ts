/** Its line is from 1. */
export interface SourceProblem {
  readonly line: number | null;
  readonly detail: string;
}
