/** What is wrong with a source, and in which of its lines, from 1. */
export interface SourceProblem {
  readonly line: number | null;
  readonly detail: string;
}
