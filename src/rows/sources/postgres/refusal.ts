import type pg from 'pg';
import type { SluiceError } from '../../../foundation/domain/errors.ts';
import { quoteText } from '../../query/print.ts';
import { findHidden, passesPolicies, type ReadRelation } from './hidden-rows.ts';
import { oidOf } from './replaced-tables.ts';
import { findLooseTenant, looseCollationSql } from './tenant-column.ts';

/** They may be of another project, or not all. Ask it in the transaction that has read the relation. */
export async function findRefusal(
  client: pg.Client,
  relation: ReadRelation,
  signal: AbortSignal,
): Promise<SluiceError | null> {
  return (
    (await findLooseTenant(client, relation, signal)) ??
    (await findHidden(client, relation, signal))
  );
}

/**
 * SQL of what can be wrong with a read of a relation. Most relations are plain, and other questions cost more than a small read.
 *
 * - `plain`: nothing. It is a table without policies and children, by this name and with these rows, now and at the moment of the
 *   snapshot.
 * - `tables`: it has no policies, but it, a partition or a child may have been replaced: ask `areTablesReplaced`.
 * - Anything else: ask `findRefusal` too.
 *
 * Ask it in the statement that has read the relation, behind what reads it, or later: then the name means the table that is locked.
 */
export const readKindSql = (relation: ReadRelation): string => {
  const { name, schema, table, callsFunctions } = relation;
  return `(SELECT CASE
      WHEN c.relkind NOT IN ('r', 'p') OR pg_catalog.row_security_active(c.oid)${callsFunctions ? ` OR ${passesPolicies}` : ''} THEN 'other'
      WHEN ${looseCollationSql(relation)} IS NOT NULL THEN 'other'
      WHEN c.relkind = 'r' AND NOT c.relhassubclass AND c.relfilenode = pg_catalog.pg_relation_filenode(c.oid)
       AND c.relname = ${quoteText(table)}
       AND (SELECT n.nspname FROM pg_catalog.pg_namespace AS n WHERE n.oid = c.relnamespace) = ${quoteText(schema)} THEN 'plain'
      ELSE 'tables' END
     FROM pg_catalog.pg_class AS c WHERE c.oid = ${oidOf(name)})`;
};
