import type { Client, Pool, QueryResult, QueryResultRow } from 'pg';
import type { Sql } from '../../src/state/store/database/database.ts';

type Asked = readonly [parts: TemplateStringsArray, ...values: readonly unknown[]];

/** A statement with its values at their places: sql`delete from runs where id = ${id}`. */
export interface SqlTag {
  <Row extends object>(...asked: Asked): Promise<Row[]>;
  /** The first column of each row. */
  values<Value>(...asked: Asked): Promise<Value[]>;
  /** The first column of the first row. */
  value<Value>(...asked: Asked): Promise<Value | undefined>;
}

const textOf = (parts: TemplateStringsArray) =>
  parts.reduce((text, part, at) => `${text}$${at}${part}`);

export function sqlOf(db: Sql): SqlTag {
  const rows = <Row extends object>(...[parts, ...values]: Asked) =>
    db.query<Row>(textOf(parts), values);
  const values = async <Value>(...asked: Asked) =>
    (await rows<Record<string, Value>>(...asked)).map((row) => Object.values(row)[0] as Value);
  return Object.assign(rows, {
    values,
    value: async <Value>(...asked: Asked) => (await values<Value>(...asked))[0],
  });
}

/** The same over a pool of the driver, with its results. */
export type PoolSqlTag = <Row extends QueryResultRow>(
  parts: TemplateStringsArray,
  ...values: readonly unknown[]
) => Promise<QueryResult<Row>>;

export const poolSqlOf =
  (pool: Pool | Client): PoolSqlTag =>
  (parts, ...values) =>
    pool.query(textOf(parts), [...values]);
