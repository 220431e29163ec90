import type { Expression } from './expression.ts';
import type { Scope } from './translate-column.ts';

export interface Translate {
  readonly scope: Scope;
  readonly offset: number;
  readonly part: (node: unknown) => Expression;
}
