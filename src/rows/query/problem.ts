import type { Problem } from '../../foundation/domain/problem.ts';

export interface QueryProblem extends Problem {
  /** The refused part, in the words of SQL: `JOIN`, `function pg_sleep`, `relation "users"`. */
  readonly construct: string;
  /** Its position in the caller's text, in characters (code points); the first is 1. */
  readonly position: number;
}

export function problemAt(construct: string, position: number, message: string): QueryProblem {
  const name = construct.replace(/^(?:function|aggregate) (?!in |with )(.*)/, '$1()');
  const colon = message.startsWith('is not supported') ? '' : ':';
  const detail = `${name} (position ${position})${colon} ${message}`;
  return { code: 'invalid_input', detail, attr: 'dsl_query', construct, position };
}

/** `offset` counts UTF-8 bytes. */
export class RefusedPart extends Error {
  readonly construct: string;
  readonly offset: number;

  constructor(construct: string, offset: number, message: string) {
    super(message);
    this.name = 'RefusedPart';
    this.construct = construct;
    this.offset = offset;
  }
}
