import type { Problem } from '../domain/problem.ts';

/** Why a query is refused, and where. */
export interface QueryProblem extends Problem {
  /** What is refused, in the words of SQL: `JOIN`, `function pg_sleep`, `relation "users"`. */
  readonly construct: string;
  /** Where it stands in the caller's text: in characters (code points), the first is 1. */
  readonly position: number;
}

export function problemAt(construct: string, position: number, message: string): QueryProblem {
  const detail = `${construct} at position ${position}: ${message}`;
  return { code: 'invalid_input', detail, attr: 'dsl_query', construct, position };
}

/** Thrown within this room where a part of a query is refused; `offset` counts UTF-8 bytes. */
export class Refusal extends Error {
  readonly construct: string;
  readonly offset: number;

  constructor(construct: string, offset: number, message: string) {
    super(message);
    this.name = 'Refusal';
    this.construct = construct;
    this.offset = offset;
  }
}
