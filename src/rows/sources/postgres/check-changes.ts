import type pg from 'pg';
import { describeIncomparable } from '../../../foundation/domain/element.ts';
import type { Model } from '../../../foundation/domain/model.ts';
import type { Relation } from './catalog.ts';
import { quoteNameIfNeeded } from '../../query/print.ts';
import { columnTypeOf } from './column-types.ts';
import { query } from './connection.ts';
import type { ModelFinding } from './tenant-column.ts';

/** Slow reads, and writes that the trigger of the model does not see. */
export async function findChangeWarnings(
  client: pg.Client,
  model: Model,
  relation: Relation,
  signal: AbortSignal,
): Promise<readonly ModelFinding[]> {
  const { changes, tenantColumn } = model;
  if (!changes) return [];
  const [found] = await query<{ indexed: boolean }>(
    client,
    `SELECT EXISTS (
              SELECT FROM pg_index i JOIN pg_attribute v ON v.attrelid = i.indrelid AND v.attname = $2
                JOIN pg_attribute t ON t.attrelid = i.indrelid AND t.attname = $3
               WHERE i.indrelid = $1 AND i.indisvalid AND i.indpred IS NULL
                 AND (i.indkey[0] = v.attnum OR i.indkey[0] = t.attnum AND i.indkey[1] = v.attnum)) AS indexed`,
    signal,
    [relation.oid, changes.versionColumn, tenantColumn],
  );
  const findings: ModelFinding[] = [];
  const warn = (detail: string) => findings.push({ severity: 'warning', detail });
  if (found?.indexed === false) {
    warn(
      `source.no_version_index: each element reads the whole table. Create an index on (${tenantColumn}, ${changes.versionColumn}).`,
    );
  }
  if (changes.setBy === 'client') {
    warn(
      `version_set_by is client: a change that arrives later than look_back_hours (default 24) after its time is lost, so elements are unsettled. An xid8 that a trigger sets is exact.`,
    );
  }
  return [
    ...findings,
    ...(await findTombstoneFaults(client, model, signal)),
    ...(await findKeyFaults(client, model, relation, signal)),
  ];
}

async function findKeyFaults(
  client: pg.Client,
  { changes, keyColumns }: Model,
  relation: Relation,
  signal: AbortSignal,
): Promise<readonly ModelFinding[]> {
  if (changes?.deletes.kind !== 'compare') return [];
  const keys = await query<{ name: string; oid: number; sourceType: string }>(
    client,
    `SELECT a.attname AS name, COALESCE(NULLIF(t.typbasetype, 0), t.oid)::int8::int AS oid,
            format_type(COALESCE(NULLIF(t.typbasetype, 0), t.oid), NULL) AS "sourceType"
       FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = $1 AND a.attname = ANY ($2)`,
    signal,
    [relation.oid, keyColumns],
  );
  const fault = describeIncomparable(
    keys.map(({ oid, ...key }) => ({ ...key, type: columnTypeOf(oid) })),
  );
  return fault === null ? [] : [{ severity: 'error', detail: `${fault}.` }];
}

async function findTombstoneFaults(
  client: pg.Client,
  { name: model, changes, tenantColumn, keyColumns, relation }: Model,
  signal: AbortSignal,
): Promise<readonly ModelFinding[]> {
  if (changes?.deletes.kind !== 'tombstones') return [];
  const { schema, name } = changes.deletes.relation;
  const columns = [...new Set([tenantColumn, ...keyColumns, changes.versionColumn])];
  const [found] = await query<{ exists: boolean; readable: boolean | null; missing: string[] }>(
    client,
    `SELECT c.oid IS NOT NULL AS exists, has_table_privilege(c.oid, 'SELECT') AS readable,
            ARRAY(SELECT w.name FROM unnest($3::text[]) AS w (name)
                   WHERE NOT EXISTS (
                     SELECT FROM pg_attribute a JOIN pg_attribute o ON o.attname = a.attname AND o.atttypid = a.atttypid
                       JOIN pg_class oc ON oc.oid = o.attrelid JOIN pg_namespace ns ON ns.oid = oc.relnamespace
                      WHERE a.attrelid = c.oid AND a.attname = w.name AND NOT a.attisdropped
                        AND ns.nspname = $4 AND oc.relname = $5)) AS missing
       FROM (SELECT 1) AS one LEFT JOIN (
              SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = $1 AND c.relname = $2) AS c ON true`,
    signal,
    [schema, name, columns, relation.schema, relation.name],
  );
  const table = `${quoteNameIfNeeded(schema)}.${quoteNameIfNeeded(name)}`;
  const fault = (detail: string): ModelFinding[] => [{ severity: 'error', detail }];
  if (!found?.exists) {
    return fault(
      `The table ${table} of tombstones does not exist. Run what \`sluice models trigger ${model}\` prints.`,
    );
  }
  if (found.missing.length > 0) {
    return fault(
      `${table} has no column ${found.missing.join(', ')} of the type that the relation has. Run what \`sluice models trigger ${model}\` prints.`,
    );
  }
  if (found.readable === false) {
    const [me] = await query<{ role: string }>(client, 'SELECT current_user AS role', signal);
    return fault(
      `The role may not read ${table}. GRANT SELECT ON ${table} TO ${quoteNameIfNeeded(me?.role ?? '')}.`,
    );
  }
  return [];
}
