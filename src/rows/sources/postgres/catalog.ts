import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { Model } from '../../../foundation/domain/model.ts';
import { query } from './connection.ts';
import { looseNameSql } from './tenant-column.ts';

export interface Relation {
  readonly oid: number;
  /** A table or materialized view, which can have indexes; not a view. */
  readonly holdsRows: boolean;
  /** The partition key, such as `RANGE (at)`; null: it is not. */
  readonly partitionKey: string | null;
  /** Its rows include those of other tables, by inheritance; not a partitioned table. */
  readonly hasHeirs: boolean;
  /** Its columns may be NOT NULL. */
  readonly isTable: boolean;
  readonly mayUseSchema: boolean;
  readonly columns: ReadonlyMap<string, RelationColumn>;
}

export interface RelationColumn {
  readonly typeName: string;
  readonly baseType: number;
  /** Its collation, if that takes different texts for the same. */
  readonly looseCollation: string | null;
  readonly nullable: boolean;
  readonly mayRead: boolean;
}

const baseTypeSql = (oid: string) => `
  (WITH RECURSIVE base AS (
     SELECT oid, typtype, typbasetype FROM pg_type WHERE oid = ${oid}
     UNION ALL
     SELECT t.oid, t.typtype, t.typbasetype FROM pg_type t JOIN base b ON b.typtype = 'd' AND t.oid = b.typbasetype)
   SELECT oid::int8 FROM base WHERE typtype <> 'd')`;

export async function findRelation(
  client: pg.Client,
  { relation }: Model,
  signal: AbortSignal,
): Promise<Relation | null> {
  const [found] = await query<{
    oid: string;
    kind: string;
    usage: boolean;
    heirs: boolean;
    partitions: string | null;
  }>(
    client,
    `SELECT c.oid::int8 AS oid, c.relkind AS kind, pg_get_partkeydef(c.oid) AS partitions, has_schema_privilege(n.oid, 'USAGE') AS usage,
            c.relkind <> 'p' AND EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhparent = c.oid) AS heirs
       FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')`,
    signal,
    [relation.schema, relation.name],
  );
  if (!found) return null;
  const columns = await query<{ name: string; base: string } & Omit<RelationColumn, 'baseType'>>(
    client,
    `SELECT attname AS name, format_type(atttypid, atttypmod) AS "typeName",
            ${baseTypeSql('atttypid')} AS base, NOT attnotnull AS nullable,
            ${looseNameSql} AS "looseCollation",
            has_column_privilege(attrelid, attnum, 'SELECT') AS "mayRead"
       FROM pg_attribute AS a WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped`,
    signal,
    [found.oid],
  );
  return {
    oid: Number(found.oid),
    holdsRows: ['r', 'p', 'm'].includes(found.kind),
    hasHeirs: found.heirs,
    partitionKey: found.partitions,
    isTable: ['r', 'p'].includes(found.kind),
    mayUseSchema: found.usage,
    columns: new Map(
      columns.map(({ name, base, ...column }) => [name, { ...column, baseType: Number(base) }]),
    ),
  };
}

export async function hasUniqueKey(
  client: pg.Client,
  relation: number,
  columns: readonly string[],
): Promise<boolean> {
  const signal = new AbortController().signal;
  const sql = `SELECT ${uniqueKeySql('$1', '$2')} AS holds`;
  const [row] = await query<{ holds: boolean }>(client, sql, signal, [relation, columns]);
  return row?.holds === true;
}

/** Says whether a unique index of a relation has none but these columns. @param columns SQL of their names */
export const uniqueKeySql = (relation: string, columns: string): string =>
  `EXISTS (SELECT FROM pg_catalog.pg_index AS x
    WHERE x.indrelid = ${relation} AND x.indisunique AND x.indisvalid AND x.indpred IS NULL AND x.indexprs IS NULL
      AND NOT EXISTS (
        SELECT FROM pg_catalog.unnest(x.indkey[0:x.indnkeyatts - 1]) AS k (attnum)
          JOIN pg_catalog.pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = k.attnum
         WHERE a.attname <> ALL (CAST(${columns} AS pg_catalog.text[]))))`;

/** Of a domain: its base type; null if no type has the name. */
export async function typeOidOf(
  client: pg.Client,
  name: string,
  signal: AbortSignal,
): Promise<number | null> {
  await query(client, 'SAVEPOINT name', signal);
  try {
    const sql = `SELECT ${baseTypeSql('to_regtype($1)')} AS oid`;
    const [found] = await query<{ oid: string | null }>(client, sql, signal, [name]);
    return found?.oid == null ? null : Number(found.oid);
  } catch (error) {
    await query(client, 'ROLLBACK TO SAVEPOINT name', signal);
    // Up to PostgreSQL 15 a name that does not parse is an error.
    if (!(error instanceof SluiceError) || error.code !== 'query.invalid') throw error;
    return null;
  } finally {
    // A subtransaction can export no snapshot.
    await query(client, 'RELEASE SAVEPOINT name', signal);
  }
}
