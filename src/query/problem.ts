/** Why a query is refused. */
export interface Problem {
  /** What is refused, in the words of SQL: `JOIN`, `function pg_sleep`, `relation "users"`. */
  readonly construct: string;
  /** Where it stands in the caller's text: in characters (code points), the first is 1. */
  readonly position: number;
  readonly message: string;
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
