import { quoteText } from '../../query/print.ts';
import { passesPolicies, type ReadRelation } from './hidden-rows.ts';
import { oidOf } from './replaced-tables.ts';

/**
 * SQL of whether nothing can be wrong with a read of a relation: it is a table without policies and children, by this
 * name and with these rows, now and at the moment of the snapshot. Most relations are, and other questions cost more than a small read.
 *
 * Ask it in the statement that has read the relation, behind what reads it, or later: then the name means the table that is locked.
 * Anything but true: ask `areTablesReplaced` and `findHidden`.
 */
export const plainTableSql = ({ name, schema, table, callsFunctions }: ReadRelation): string =>
  `(SELECT c.relkind = 'r' AND c.relname = ${quoteText(table)}
      AND (SELECT n.nspname FROM pg_catalog.pg_namespace AS n WHERE n.oid = c.relnamespace) = ${quoteText(schema)}
      AND c.relfilenode = pg_catalog.pg_relation_filenode(c.oid)
      AND NOT c.relhassubclass AND NOT pg_catalog.row_security_active(c.oid)${callsFunctions ? ` AND NOT ${passesPolicies}` : ''}
     FROM pg_catalog.pg_class AS c WHERE c.oid = ${oidOf(name)})`;
