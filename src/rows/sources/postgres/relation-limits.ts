import type pg from 'pg';
import { query } from './connection.ts';
import { type ReadRelation, viewedRelationsSql } from './hidden-rows.ts';

interface ReadObject {
  readonly name: string;
  readonly kind: string;
  /** Whether logical replication writes its rows. */
  readonly isSubscribed: boolean;
  /** Whether the role has SELECT on some columns only; not of what a view reads. */
  readonly isPartlyGranted: boolean;
}

/** The relation and what a view reads, with their partitions and heirs: those that are more than plain tables. */
const limitsSql = (relation: ReadRelation): string => `${viewedRelationsSql(relation)},
  read (id, view) AS (
    SELECT id, view FROM viewed
    UNION
    SELECT i.inhrelid, read.view FROM read JOIN pg_catalog.pg_inherits AS i ON i.inhparent = read.id),
  found AS (
    SELECT DISTINCT pg_catalog.format('%I.%I', n.nspname, c.relname) AS name, c.relkind AS kind,
           EXISTS (SELECT FROM pg_catalog.pg_subscription_rel AS s WHERE s.srrelid = c.oid) AS "isSubscribed",
           read.view = c.oid AND c.relkind IN ('r', 'p') AND NOT pg_catalog.has_table_privilege(c.oid, 'SELECT') AS "isPartlyGranted"
      FROM read JOIN pg_catalog.pg_class AS c ON c.oid = read.id
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace)
  SELECT * FROM found WHERE kind IN ('m', 'f') OR "isSubscribed" OR "isPartlyGranted" ORDER BY name LIMIT 5`;

/** What of a relation keeps Sluice from seeing each row in time, as warnings. */
export async function findLimits(
  client: pg.Client,
  relation: ReadRelation,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const found = await query<ReadObject & pg.QueryResultRow>(client, limitsSql(relation), signal);
  return found.flatMap(({ name, kind, isSubscribed, isPartlyGranted }) => [
    ...(kind === 'm'
      ? [
          `${name} is a materialized view: its rows arrive by REFRESH, which no run can wait for. ${lookBack}`,
        ]
      : []),
    ...(kind === 'f'
      ? [
          `${name} is a foreign table: no run can wait for the transactions of its server, or see whether rows are hidden there. ${lookBack}`,
        ]
      : []),
    ...(isSubscribed
      ? [
          `Logical replication writes the rows of ${name}: they have the time of the publisher and arrive later, so no run can wait for them. ${lookBack}`,
        ]
      : []),
    ...(isPartlyGranted
      ? [
          `The role may read only some columns of ${name}, so it does not see which rows are new: if an interval has changed, a run compares all of its keys with the files. Grant it SELECT on the relation to avoid this.`,
        ]
      : []),
  ]);
}

const lookBack = 'Only LATE_LOOKBACK_HOURS finds late rows.';
