import type { Sql } from './database.ts';
import { countedPage, type OffsetPage, type PageRequest } from './lists.ts';

/**
 * Statements as functions: `queryFirst<Run, [id: string]>('select … where id = $1')` is `(sql, id) => Promise<Run | null>`.
 * Each has a text, and makes the values of its parameters from the arguments. By default they are the arguments.
 */
type Statement<Args extends readonly unknown[], Result> = (
  sql: Sql,
  ...args: Args
) => Promise<Result>;

type ValuesOf<Args extends readonly unknown[]> = (...args: Args) => readonly unknown[];

const asGiven = (...args: readonly unknown[]): readonly unknown[] => args;

export function queryRows<Row extends object, Args extends readonly unknown[] = []>(
  text: string,
  valuesOf: ValuesOf<Args> = asGiven,
): Statement<Args, Row[]> {
  const statement = text.trimStart();
  return async (sql, ...args) => sql.query<Row>(statement, valuesOf(...args));
}

export function queryAs<Row extends object, Args extends readonly unknown[], Result>(
  text: string,
  valuesOf: ValuesOf<Args> | undefined,
  resultOf: (rows: Row[]) => Result,
): Statement<Args, Result> {
  const query = queryRows<Row, Args>(text, valuesOf);
  return async (sql, ...args) => resultOf(await query(sql, ...args));
}

/** Null: there is no row. */
export const queryFirst = <Row extends object, Args extends readonly unknown[] = []>(
  text: string,
  valuesOf?: ValuesOf<Args>,
) => queryAs<Row, Args, Row | null>(text, valuesOf, ([row]) => row ?? null);

/** The row of a statement that always has one. */
export const queryOne = <Row extends object, Args extends readonly unknown[] = []>(
  text: string,
  valuesOf?: ValuesOf<Args>,
) =>
  queryAs<Row, Args, Row>(text, valuesOf, ([row]) => {
    if (!row) throw new Error('a statement returned no row');
    return row;
  });

/** A page of a list; each row has the count of all in the column `count`. */
export const queryPage = <Row extends object, Args extends readonly unknown[] = []>(
  text: string,
  valuesOf?: ValuesOf<Args>,
) => queryAs<Row & { readonly count: number }, Args, OffsetPage<Row>>(text, valuesOf, countedPage);

/** The values of the first column. */
const valuesIn = <Value>(rows: readonly object[]): Value[] =>
  rows.flatMap((row) => Object.values(row).slice(0, 1) as Value[]);

export const queryValues = <Value, Args extends readonly unknown[] = []>(
  text: string,
  valuesOf?: ValuesOf<Args>,
) => queryAs<object, Args, Value[]>(text, valuesOf, valuesIn<Value>);

export const querySet = <Value, Args extends readonly unknown[] = []>(
  text: string,
  valuesOf?: ValuesOf<Args>,
) => queryAs<object, Args, ReadonlySet<Value>>(text, valuesOf, (rows) => new Set(valuesIn(rows)));

/** Null: there is no row, or the first one has no value. */
export const queryValue = <Value, Args extends readonly unknown[] = []>(
  text: string,
  valuesOf?: ValuesOf<Args>,
) =>
  queryAs<object, Args, Value | null>(text, valuesOf, (rows) => valuesIn<Value>(rows)[0] ?? null);

const makerOf =
  <Result>(resultOf: (rows: object[]) => Result) =>
  <Args extends readonly unknown[] = []>(text: string, valuesOf?: ValuesOf<Args>) =>
    queryAs<object, Args, Result>(text, valuesOf, resultOf);

export const command = makerOf<void>(() => {});
/** 0: there is no row. */
export const queryNumber = makerOf((rows) => valuesIn<number>(rows)[0] ?? 0);
/** False: there is no row. */
export const queryFlag = makerOf((rows) => valuesIn(rows)[0] === true);
export const queryCount = makerOf((rows) => rows.length);
export const queryAny = makerOf((rows) => rows.length > 0);

/** A page of a list from two statements: the count of all, and the rows of the page. */
export const inPages =
  <Subject, Row extends object>(
    count: Statement<[subject: Subject], number>,
    rows: Statement<[subject: Subject, limit: number, offset: number], Row[]>,
  ): Statement<[subject: Subject, page: PageRequest], OffsetPage<Row>> =>
  async (sql, subject, { limit, offset }) => {
    const [total, results] = await Promise.all([
      count(sql, subject),
      rows(sql, subject, limit, offset),
    ]);
    return { count: total, results };
  };
