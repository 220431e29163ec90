import { type Json, kindOf, listOf, plainOf, stringOf, textOf } from '../json.ts';

/** Whether a value of a row compares so to the value of a condition. */
type Operator = (value: Json, wanted: Json) => boolean;

const text =
  (compare: (text: string, wanted: string) => boolean): Operator =>
  (value, wanted) => {
    const [a, b] = [stringOf(value), stringOf(wanted)];
    return a !== null && b !== null && compare(a, b);
  };

const ordered =
  (compare: (sign: number) => boolean): Operator =>
  (value, wanted) => {
    const sign = orderOf(value, wanted);
    return sign !== null && compare(sign);
  };

const is: Operator = (value, wanted) => {
  if (kindOf(value) === 'number' && kindOf(wanted) === 'number')
    return orderOf(value, wanted) === 0;
  return kindOf(value) === kindOf(wanted) && plainOf(value) === plainOf(wanted);
};

const isOneOf: Operator = (value, wanted) =>
  (listOf(wanted) ?? []).some((element) => is(value, element));

/** The operators and the kinds of values that they compare with. */
export const operators = {
  is: { holds: is, takes: ['string', 'number', 'boolean', 'null'] },
  in: { holds: isOneOf, takes: ['list'] },
  contains: { holds: text((a, b) => a.includes(b)), takes: ['string'] },
  starts_with: { holds: text((a, b) => a.startsWith(b)), takes: ['string'] },
  ends_with: { holds: text((a, b) => a.endsWith(b)), takes: ['string'] },
  lt: { holds: ordered((sign) => sign < 0), takes: ['string', 'number'] },
  lte: { holds: ordered((sign) => sign <= 0), takes: ['string', 'number'] },
  gt: { holds: ordered((sign) => sign > 0), takes: ['string', 'number'] },
  gte: { holds: ordered((sign) => sign >= 0), takes: ['string', 'number'] },
} as const satisfies Record<string, { holds: Operator; takes: readonly string[] }>;

/** Null for values of different kinds, and for kinds without an order. */
function orderOf(a: Json, b: Json): number | null {
  const [textA, textB] = [stringOf(a), stringOf(b)];
  if (textA !== null && textB !== null) return sign(textA, textB);
  if (kindOf(a) !== 'number' || kindOf(b) !== 'number') return null;
  const [sourceA, sourceB] = [textOf(a), textOf(b)];
  // Whole numbers of any length are exact.
  if (isWhole(sourceA) && isWhole(sourceB)) return sign(BigInt(sourceA), BigInt(sourceB));
  return sign(Number(sourceA), Number(sourceB));
}

const isWhole = (source: string) => /^-?\d+$/.test(source);

function sign<T extends string | number | bigint>(a: T, b: T): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
