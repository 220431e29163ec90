/** The only form in which a tenant's query reaches a server; whatever has no form here cannot be expressed. */
export type Expression =
  | { readonly kind: 'column'; readonly name: string }
  /** `properties.a.b`: the text at a path into a JSON column; the path is never empty. */
  | { readonly kind: 'json'; readonly column: string; readonly path: readonly string[] }
  | { readonly kind: 'string'; readonly value: string }
  /** Plain decimal text; never hexadecimal or with underscores. */
  | { readonly kind: 'number'; readonly text: string }
  | { readonly kind: 'keyword'; readonly keyword: 'TRUE' | 'FALSE' | 'NULL' }
  | { readonly kind: 'unary'; readonly operator: string; readonly operand: Expression }
  | {
      readonly kind: 'binary';
      readonly operator: string;
      readonly left: Expression;
      readonly right: Expression;
    }
  /** `left = ANY (right)`. */
  | {
      readonly kind: 'quantified';
      readonly operator: string;
      readonly quantifier: 'ANY' | 'ALL';
      readonly left: Expression;
      readonly right: Expression;
    }
  /** Never contains an operand of its own kind and operator: `(a AND b) AND c` is one of three. */
  | {
      readonly kind: 'logic';
      readonly operator: 'AND' | 'OR';
      readonly operands: readonly Expression[];
    }
  | { readonly kind: 'not'; readonly operand: Expression }
  /** `operand IS NOT NULL`. */
  | { readonly kind: 'test'; readonly test: string; readonly operand: Expression }
  | {
      readonly kind: 'in';
      readonly negated: boolean;
      readonly operand: Expression;
      readonly items: readonly Expression[];
    }
  | {
      readonly kind: 'between';
      readonly keyword: string;
      readonly operand: Expression;
      readonly low: Expression;
      readonly high: Expression;
    }
  | {
      readonly kind: 'case';
      readonly operand: Expression | null;
      readonly branches: readonly { readonly when: Expression; readonly result: Expression }[];
      readonly otherwise: Expression | null;
    }
  /** COALESCE, NULLIF, GREATEST, LEAST: grammar, not functions. */
  | { readonly kind: 'form'; readonly name: string; readonly arguments: readonly Expression[] }
  | { readonly kind: 'call'; readonly name: string; readonly arguments: readonly Expression[] }
  | { readonly kind: 'array'; readonly items: readonly Expression[] }
  | {
      readonly kind: 'subscript';
      readonly operand: Expression;
      readonly indexes: readonly Expression[];
    }
  | {
      readonly kind: 'cast';
      readonly operand: Expression;
      readonly type: CastType;
      /** A text of a row becomes a time: see `time-text.ts`. */
      readonly readsTime?: true;
    };

export interface CastType {
  /** A key of `castTypes`. */
  readonly name: string;
  /** `(10, 2)` of `numeric(10, 2)`. */
  readonly modifiers: readonly number[];
  readonly array: boolean;
}

export function operandsOf(expression: Expression): readonly Expression[] {
  switch (expression.kind) {
    case 'column':
    case 'json':
    case 'string':
    case 'number':
    case 'keyword':
      return [];
    case 'unary':
    case 'not':
    case 'test':
    case 'cast':
      return [expression.operand];
    case 'binary':
    case 'quantified':
      return [expression.left, expression.right];
    case 'logic':
      return expression.operands;
    case 'in':
      return [expression.operand, ...expression.items];
    case 'between':
      return [expression.operand, expression.low, expression.high];
    case 'case':
      return [
        ...(expression.operand ? [expression.operand] : []),
        ...expression.branches.flatMap(({ when, result }) => [when, result]),
        ...(expression.otherwise ? [expression.otherwise] : []),
      ];
    case 'form':
    case 'call':
      return expression.arguments;
    case 'array':
      return expression.items;
    case 'subscript':
      return [expression.operand, ...expression.indexes];
  }
}

export const columnNamed = (name: string): Expression => ({ kind: 'column', name });

export const binary = (left: Expression, operator: string, right: Expression): Expression => ({
  kind: 'binary',
  operator,
  left,
  right,
});

export const castTo = (operand: Expression, name: string): Expression => ({
  kind: 'cast',
  operand,
  type: { name, modifiers: [], array: false },
});
