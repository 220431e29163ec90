import type { Expression } from './expression.ts';
import type { Scope } from './translate-column.ts';

/** Where a translation stands, and how it goes on into the parts of the node it stands at. */
export interface Translate {
  readonly scope: Scope;
  readonly offset: number;
  readonly part: (node: unknown) => Expression;
}
