import { type CastType, type Expression, operandsOf } from './expression.ts';
import {
  functions,
  type Growth,
  type GrowthRule,
  hasLongNumber,
  operatorGrowth,
  type Product,
  quantifiedGrowth,
} from './functions.ts';
import { RefusedPart } from './problem.ts';
import {
  atMost,
  constant,
  either,
  fixed,
  isFixed,
  largestWithin,
  leaf,
  literalBytes,
  maxNumericBytes,
  maxValueBytes,
  numberBytes,
  plus,
  type Size,
  sizeAt,
  times,
} from './size.ts';
import type { Scope } from './translate-column.ts';

/** Maximum bytes of a value that a query makes, besides four times the columns in it. */
export const maxBytes = 2 ** 20;
const freeTimes = 4;
export const maxNeedle = 1_024;
const maxDigits = 1_000;
/** Maximum steps of one call, and of all calls of a query on one row: about a second. */
export const maxCallCost = 1e8;
export const maxRowCost = 1e9;
/** The number of times that a query may read a column without a guard. Above it the row's size is limited. */
const freeReads = 64;
const maxRowBytes = 64 * 2 ** 20;
/** If a query would only work with values smaller than this, it is refused. */
const minColumnBytes = 1_024;

/** A guard around the expression enforces it at run time. */
export interface Limit {
  readonly bytes: number;
  /** The guard may check the stored size first, which is cheap. */
  readonly stored: boolean;
}

export type Limits = ReadonlyMap<Expression, Limit>;

interface Demand extends Product {
  readonly construct: string;
  readonly offset: number;
}

export class Bounds {
  readonly #sizes = new Map<Expression, Size>();
  readonly #limits = new Map<Expression, Limit>();
  readonly #demands: Demand[] = [];
  /** The reads of each column by all expressions together, once per expression that uses it as an operand. */
  readonly #reads = new Map<
    string | Expression,
    { times: number; leaves: Set<Expression>; max: number }
  >();
  #readBytes = 0;
  #constantCost = 0;

  /** Its operands were measured before. @throws RefusedPart if it may be too large, or cost too much */
  measure(expression: Expression, scope: Scope, offset: number): void {
    const size = this.#sizeOf(expression, scope, offset);
    this.#sizes.set(expression, size);
    this.#holdValue(size, constructOf(expression), offset);
    for (const operand of operandsOf(expression)) this.#countRead(this.#read(operand));
    if (this.#readBytes > maxRowCost) throw tooDear(constructOf(expression), offset);
  }

  /** @throws RefusedPart if they would let nothing through */
  finish(outputs: readonly Expression[]): Limits {
    const row = plus(outputs.map((output) => this.#read(output)));
    if (row.bytes > maxBytes) {
      const message = `The columns of one row may need more than ${maxBytes} bytes beyond their source columns. Select fewer or shorter expressions.`;
      throw new RefusedPart('large row', 0, message);
    }
    this.#holdMany(row, maxRowBytes);
    this.#holdMany({ ...fixed, parts: this.#reads }, maxRowCost);
    const most = Math.min(maxCallCost, maxRowCost / Math.max(1, this.#demands.length));
    for (const demand of this.#demands) this.#holdProduct(demand, most);
    return this.#limits;
  }

  #read(expression: Expression): Size {
    const size = this.#sizes.get(expression);
    if (!size) throw new Error('An expression was not measured.');
    return size;
  }

  #countRead({ bytes, parts }: Size): void {
    this.#readBytes += bytes;
    for (const [key, { times: more, leaves, max }] of parts) {
      const reads = this.#reads.get(key) ?? { times: 0, leaves: new Set(), max };
      reads.times += more;
      for (const place of leaves) reads.leaves.add(place);
      this.#reads.set(key, reads);
    }
  }

  #sizeOf(expression: Expression, scope: Scope, offset: number): Size {
    const operands = operandsOf(expression);
    const sizes = operands.map((part) => this.#read(part));
    const apply = (rule: GrowthRule | undefined, name: string) =>
      this.#apply(rule, name, operands, sizes, offset);
    switch (expression.kind) {
      case 'column':
        return columnSize(expression, scope);
      case 'json':
        return leaf(expression.column, expression);
      case 'string':
        return constant(literalBytes(expression.value));
      case 'number':
        return constant(literalBytes(expression.text), 'number');
      case 'unary':
        return sizes[0] ?? fixed;
      case 'binary':
        return apply(operatorGrowth.get(expression.operator), expression.operator);
      case 'quantified':
        return apply(quantifiedGrowth(expression.operator), expression.operator);
      case 'call':
        return apply(functions.get(expression.name)?.growth, expression.name);
      case 'form':
        return either(sizes);
      case 'case': {
        const results = expression.branches.map(({ result }) => result);
        if (expression.otherwise) results.push(expression.otherwise);
        return either(results.map((part) => this.#read(part)));
      }
      case 'array':
        // As text, every character may be escaped and every element quoted.
        return {
          ...plus(
            sizes.map((size) => times(size, 2)),
            64 + 8 * sizes.length,
          ),
          kind: 'array',
        };
      case 'subscript':
        return { ...(sizes[0] ?? fixed), kind: 'other' };
      case 'cast':
        return castSize(expression, sizes[0] ?? fixed, offset);
      default:
        return fixed;
    }
  }

  #apply(
    rule: GrowthRule | undefined,
    name: string,
    operands: readonly Expression[],
    sizes: readonly Size[],
    offset: number,
  ): Size {
    const construct = functions.has(name) ? `function ${name}` : `operator ${name}`;
    if (!rule) throw new RefusedPart(construct, offset, 'is not supported.');
    if (hasLongNumber(name, operands, maxDigits)) throw longNumber(offset);
    const { size, products, needles }: Growth = rule(sizes, operands);
    for (const place of needles) {
      const needle = operands[place];
      if (needle) this.#holdNeedle(needle, this.#read(needle), name, construct, offset);
    }
    for (const product of products) {
      if (product.of === 'numbers' && isSmall(product)) continue;
      const { left, right } = product;
      const cost = left.bytes * right.bytes;
      this.#constantCost += cost;
      if (cost > maxCallCost || this.#constantCost > maxRowCost) throw tooDear(construct, offset);
      this.#demands.push({ ...product, construct, offset });
    }
    return size;
  }

  #holdNeedle(
    needle: Expression,
    size: Size,
    name: string,
    construct: string,
    offset: number,
  ): void {
    if (!isNeedle(needle)) {
      const message = `${name} can search only for a column or a literal of at most ${maxNeedle} bytes.`;
      throw new RefusedPart(construct, offset, message);
    }
    const most = largestWithin(maxNeedle, (bytes) => sizeAt(size, bytes));
    if (size.parts.size > 0) this.#limit(size, most, false);
  }

  /** If a value may grow far beyond its columns, the columns must be smaller. */
  #holdValue(size: Size, construct: string, offset: number): void {
    const grown = { ...size, parts: partsOf(size, freeTimes) };
    const most = largestWithin(maxBytes, (bytes) => sizeAt(grown, bytes));
    if (most >= 0 && grown.parts.size === 0) return;
    if (most < minColumnBytes) {
      const message = `This value may need more than ${maxBytes} bytes. Shorten its arguments, for example by left(…, 1000).`;
      throw new RefusedPart(`large ${construct}`, offset, message);
    }
    this.#limit(grown, most, false);
  }

  #holdMany(size: Size, limit: number): void {
    const many = { ...size, bytes: 0, parts: partsOf(size, freeReads) };
    const most = largestWithin(limit, (bytes) => sizeAt(many, bytes));
    if (many.parts.size > 0) this.#limit(many, most, false);
  }

  #holdProduct({ left, right, of, construct, offset }: Demand, limit: number): void {
    if (left.parts.size === 0 && right.parts.size === 0) return;
    const within = (bytes: number) =>
      sizeAt(right, of === 'needle' ? Math.min(bytes, maxNeedle) : bytes);
    const most = largestWithin(limit, (bytes) => sizeAt(left, bytes) * within(bytes));
    if (most < minColumnBytes) throw tooDear(construct, offset);
    const stored = of === 'elements';
    this.#limit(left, most, stored);
    if (of !== 'needle') this.#limit(right, most, stored);
  }

  #limit({ parts }: Size, bytes: number, stored: boolean): void {
    for (const { leaves, max } of parts.values()) {
      if (max <= bytes) continue;
      for (const place of leaves) {
        const limit = this.#limits.get(place);
        this.#limits.set(place, {
          bytes: Math.min(bytes, limit?.bytes ?? bytes),
          stored: stored && (limit?.stored ?? true),
        });
      }
    }
  }
}

/** Arithmetic on numbers this short is cheap. */
function isSmall({ left, right }: Product): boolean {
  const isShort = ({ parts, bytes }: Size) => parts.size === 0 && bytes <= 2_000;
  return isShort(left) && isShort(right);
}

const partsOf = (size: Size, free: number): Size['parts'] =>
  new Map([...size.parts].filter(([, part]) => part.times > free));

function isNeedle(expression: Expression): boolean {
  switch (expression.kind) {
    case 'string':
      return Buffer.byteLength(expression.value) <= maxNeedle;
    case 'column':
    case 'json':
    case 'keyword':
      return true;
    case 'cast':
      return (
        !expression.type.array &&
        /^(?:text|varchar)$/.test(expression.type.name) &&
        isNeedle(expression.operand)
      );
    case 'call':
      return expression.name === 'like_escape' && expression.arguments.every(isNeedle);
    default:
      return false;
  }
}

const fixedTypes =
  /^(?:boolean|smallint|integer|bigint|real|double precision|uuid|date|interval|oid)\b|^time/;

function columnSize(expression: Extract<Expression, { kind: 'column' }>, { model }: Scope): Size {
  const { name } = expression;
  const type = model.columns.find((column) => column.name === name)?.sourceType ?? '';
  if (type.endsWith('[]')) return leaf(name, expression, 'array');
  if (fixedTypes.test(type)) return fixed;
  const [, precision, scale] = /^numeric\((\d+),(-?\d+)\)$/.exec(type) ?? [];
  if (precision !== undefined) {
    return constant(Number(precision) + Math.abs(Number(scale)) + 4, 'number');
  }
  if (type === 'numeric') return leaf(name, expression, 'number', maxNumericBytes);
  return leaf(name, expression);
}

function castSize(
  expression: Extract<Expression, { kind: 'cast' }>,
  from: Size,
  offset: number,
): Size {
  const { operand, type } = expression;
  const isLiteral = operand.kind === 'string';
  if (type.array) return arraySize(operand, type, from);
  if (type.name === 'text') return { ...from, kind: 'other' };
  if (type.name === 'varchar') {
    return { ...atMost(from, (type.modifiers[0] ?? maxValueBytes) * 4), kind: 'other' };
  }
  if (type.name !== 'numeric') return fixed;
  if (isLiteral && numberBytes(operand.value) > maxDigits) throw longNumber(offset);
  const [precision, scale = 0] = type.modifiers;
  if (precision !== undefined) return constant(precision + scale + 8, 'number');
  // The longest floating-point number has 309 digits.
  if (isFixed(from)) return constant(400, 'number');
  if (from.kind === 'number') return from;
  if (isLiteral) return constant(literalBytes(operand.value), 'number');
  // Eight characters can become 131,072 digits. A guard writes the operand twice, so guards do not nest.
  const isNested = [...from.parts.keys()].some((key) => typeof key !== 'string');
  if (isNested) return constant(maxNumericBytes, 'number');
  return leaf(expression, expression, 'number', maxNumericBytes);
}

/** An element of two characters (`0,`) becomes a value of at most twenty, unless it is a numeric. */
function arraySize(operand: Expression, type: CastType, from: Size): Size {
  const isWritten = (part: Expression): boolean =>
    part.kind === 'string' ||
    part.kind === 'number' ||
    part.kind === 'keyword' ||
    (part.kind === 'array' && part.items.every(isWritten));
  const factor = type.name === 'numeric' && !isWritten(operand) ? maxNumericBytes : 10;
  return { ...plus([times(from, factor)], 64), kind: 'array' };
}

function constructOf(expression: Expression): string {
  switch (expression.kind) {
    case 'call':
      return `function ${expression.name}`;
    case 'binary':
      return `operator ${expression.operator}`;
    case 'cast':
      return `cast to ${expression.type.name}${expression.type.array ? '[]' : ''}`;
    default:
      return 'value';
  }
}

function longNumber(offset: number): RefusedPart {
  return new RefusedPart('number', offset, `Use a number of at most ${maxDigits} digits.`);
}

function tooDear(construct: string, offset: number): RefusedPart {
  const message =
    'This may take too long on one row. Shorten its arguments, for example by left(…, 1000).';
  return new RefusedPart(`costly ${construct}`, offset, message);
}
