import type { Pool, QueryResult, QueryResultRow } from 'pg';
import type { Sql } from '../../src/state/store/database/database.ts';

/** A statement with its values at their places: sql`delete from runs where id = ${id}`. */
export type SqlTag = <Row extends object>(
  parts: TemplateStringsArray,
  ...values: readonly unknown[]
) => Promise<Row[]>;

const textOf = (parts: TemplateStringsArray) =>
  parts.reduce((text, part, at) => `${text}$${at}${part}`);

export const sqlOf =
  (db: Sql): SqlTag =>
  (parts, ...values) =>
    db.query(textOf(parts), values);

/** The same over a pool of the driver, with its results. */
export type PoolSqlTag = <Row extends QueryResultRow>(
  parts: TemplateStringsArray,
  ...values: readonly unknown[]
) => Promise<QueryResult<Row>>;

export const poolSqlOf =
  (pool: Pool): PoolSqlTag =>
  (parts, ...values) =>
    pool.query(textOf(parts), [...values]);
