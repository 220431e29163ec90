import type pg from 'pg';
import type { Column } from '../../../foundation/domain/row-block.ts';
import { quoteText } from '../../query/print.ts';
import { type Description, refusePartOfDay } from '../source.ts';
import { inSnapshot } from './in-snapshot.ts';
import type { PlannedRequest } from './snapshot-connections.ts';
import { describeColumns, query } from './connection.ts';
import type { DescribedColumn } from './column-types.ts';
import { type ReadRelation, viewedRelationsSql } from './hidden-rows.ts';
import { findRefusal } from './refusal.ts';
import { describeTypeChange, findTypeChanges, refuseTypeChanges } from './schema-changes.ts';

export async function explain(
  { options, plan, request }: PlannedRequest,
  signal: AbortSignal,
  runs = false,
): Promise<Description> {
  const { model, describeSql, relation, used, select } = plan(request);
  return inSnapshot(options, request.tenantKey, relation, signal, async (client) => {
    const { describeSql: usedSql, columns } = used;
    // A query may fail because of the change of a type: the change is what to name.
    const shape = await describeColumns(client, usedSql ?? describeSql, signal);
    const changes = await findTypeChanges(client, columns, shape, signal);
    refuseTypeChanges(model, changes);
    const described = usedSql === null ? shape : await describeColumns(client, describeSql, signal);
    const planned = select(described);
    await query(client, planned.explainSql(request.interval, runs), signal);
    const refusal = await findRefusal(client, relation, signal);
    if (refusal) throw refusal;
    const { columns: shown, moment } = planned;
    refusePartOfDay(moment?.type === 'date', request.interval);
    const ofMoment = moment && describeIntervalColumn(moment);
    const isKeys = request.select === 'keys';
    return {
      columns: shown,
      renamable: isKeys ? await findRenamable(client, shown, described, signal) : [],
      warnings: [
        ...changes.map(describeTypeChange),
        ...(ofMoment === null ? [] : [ofMoment]),
        // All rows together are never late.
        ...(request.whole ? [] : await findLimits(client, relation, signal)),
        ...(await findSessionViews(client, relation, signal)),
      ],
    };
  });
}

/** The types inside each type, down to those that an enum's labels or a composite's attributes name. */
const renamableSql = `WITH RECURSIVE part (at, type) AS (
    SELECT f.at, f.type FROM pg_catalog.unnest($1::oid[]) WITH ORDINALITY AS f (type, at)
    UNION
    SELECT part.at, inside.type FROM part
      JOIN pg_catalog.pg_type AS y ON y.oid = part.type
      LEFT JOIN pg_catalog.pg_range AS r ON y.oid IN (r.rngtypid, r.rngmultitypid)
     CROSS JOIN LATERAL (VALUES (y.typelem), (y.typbasetype), (r.rngsubtype)) AS inside (type)
     WHERE inside.type <> 0)
  SELECT DISTINCT part.at::int AS at FROM part JOIN pg_catalog.pg_type AS y ON y.oid = part.type
   WHERE y.typtype IN ('c', 'e') OR y.typname LIKE 'reg%' AND y.typnamespace = 'pg_catalog'::regnamespace`;

/** Of key columns those whose values print names: labels of enums, attributes of composites, names of tables. */
async function findRenamable(
  client: pg.Client,
  keys: readonly Column[],
  described: readonly DescribedColumn[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const types = keys.map(({ name }) => described.find((one) => one.name === name)?.typeOid ?? 0);
  const renamable = await query<{ at: number }>(client, renamableSql, signal, [types]);
  return renamable.flatMap(({ at }) => keys[at - 1]?.name ?? []);
}

interface ReadObject {
  readonly name: string;
  readonly kind: string;
  /** True if logical replication writes its rows. */
  readonly isSubscribed: boolean;
  /** True if the role has SELECT on some columns only; not of what a view reads. */
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

/** A setting of an application, or who is logged in: views that hide rows by it show none to Sluice. */
const ofSession = quoteText(
  "current_setting\\s*\\(\\s*'((?!sluice\\.tenant_key')[^'.]+\\.[^']+)'|\\m(session_user|current_user|current_role)\\M",
);

/** The views that are read, and what of the session they or the functions that they call directly ask for. */
const sessionViewsSql = (relation: ReadRelation): string => `${viewedRelationsSql(relation)}
  SELECT DISTINCT pg_catalog.format('%I.%I', n.nspname, v.relname) AS view, pg_catalog.lower(COALESCE(m.found[1], m.found[2])) AS asked
    FROM viewed
    JOIN pg_catalog.pg_class AS v ON v.oid = viewed.id AND v.relkind = 'v'
    JOIN pg_catalog.pg_namespace AS n ON n.oid = v.relnamespace
    CROSS JOIN LATERAL (
      SELECT pg_catalog.pg_get_viewdef(v.oid)
      UNION ALL
      SELECT p.prosrc FROM pg_catalog.pg_rewrite AS w
        JOIN pg_catalog.pg_depend AS d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = w.oid
         AND d.refclassid = 'pg_catalog.pg_proc'::regclass
        JOIN pg_catalog.pg_proc AS p ON p.oid = d.refobjid AND p.oid >= '16384'
       WHERE w.ev_class = v.oid) AS t (text)
    CROSS JOIN LATERAL (SELECT pg_catalog.regexp_match(t.text, ${ofSession}, 'i')) AS m (found)
   WHERE m.found IS NOT NULL ORDER BY 1, 2 LIMIT 5`;

async function findSessionViews(
  client: pg.Client,
  relation: ReadRelation,
  signal: AbortSignal,
): Promise<readonly string[]> {
  if (relation.isFiltered) return [];
  type Found = { view: string; asked: string };
  const views = await query<Found>(client, sessionViewsSql(relation), signal);
  return views.map(
    ({ view, asked }) =>
      `The view ${view} depends on ${asked} of the session, which your application may set otherwise, so rows may be missing. Sluice sets only sluice.tenant_key, to the project of the run.`,
  );
}

async function findLimits(
  client: pg.Client,
  relation: ReadRelation,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const objects = await query<ReadObject & pg.QueryResultRow>(client, limitsSql(relation), signal);
  return objects.flatMap(({ name, kind, isSubscribed, isPartlyGranted }) => {
    const limits: readonly (readonly [boolean, string])[] = [
      [
        kind === 'm',
        `${name} is a materialized view: its rows arrive by REFRESH, which no run can wait for. ${lookBack}`,
      ],
      [
        kind === 'f',
        `${name} is a foreign table: no run can wait for the transactions of its server, or see whether rows are hidden there. ${lookBack}`,
      ],
      [
        isSubscribed,
        `Logical replication writes the rows of ${name}: they have the time of the publisher and arrive later, so no run can wait for them. ${lookBack}`,
      ],
      [
        isPartlyGranted,
        `The role may read only some columns of ${name}, so it does not see which rows are new: if an interval has changed, a run compares all of its keys with the files. Grant it SELECT on the relation to avoid this.`,
      ],
    ];
    return limits.flatMap(([applies, warning]) => (applies ? [warning] : []));
  });
}

const lookBack =
  'Only look-backs find late rows: set look_back_hours of the model or of its exports.';

export function describeIntervalColumn({
  name,
  type,
  sourceType,
}: Pick<Column, 'name' | 'type' | 'sourceType'>): string | null {
  const effect = effects[type];
  if (effect === undefined) return null;
  return `${name} is ${sourceType}, not timestamp with time zone. ${effect}.`;
}

const effects: Partial<Record<Column['type'], string>> = {
  date: 'Sluice reads it as midnight in UTC, so an interval must end at midnight in UTC: otherwise rows of a day that arrive after its first interval would be lost, and such runs are refused',
  timestamp:
    'Sluice reads it as UTC, so rows of sessions in another time zone are in another interval, and may be lost',
};
