import type { Expression } from './expression.ts';
import type { Scope } from './translate-column.ts';

/** The current node of a translation, and how to translate its parts. */
export interface Translate {
  readonly scope: Scope;
  readonly offset: number;
  readonly part: (node: unknown) => Expression;
}
