import { createHash } from 'node:crypto';
import {
  changeColumns,
  type SequencePoint,
  tombstonesPrefix,
  type VersionType,
} from '../../../foundation/domain/element.ts';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { Model, ModelChanges } from '../../../foundation/domain/model.ts';
import type { Column } from '../../../foundation/domain/row-block.ts';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import { quoteText } from '../../query/print.ts';
import { relationOf } from '../../query/select.ts';
import type { SequenceReading } from '../source.ts';
import { uniqueKeySql } from './catalog.ts';
import type { Look } from './live-transactions.ts';
import { oidOf } from './replaced-tables.ts';

/** Bits of `pg_trigger.tgtype`. */
const [forEachRow, before, onInsert, onDelete, onUpdate] = [1, 2, 4, 8, 16] as const;

/** As we look for names in code: PostgreSQL folds case, and spaces are between words only. */
const plainSql = (text: string): string =>
  `pg_catalog.lower(pg_catalog.regexp_replace(${text}, '["[:space:]]', '', 'g'))`;

/** No regular expression here has a backslash: a role can have standard_conforming_strings off. */
const uncommented = `pg_catalog.regexp_replace(pg_catalog.regexp_replace(p.prosrc, '/[*].*?[*]/', ' ', 'g'), pg_catalog.concat('--[^', pg_catalog.chr(10), ']*'), ' ', 'g')`;

/**
 * It fires for every write, whatever session_replication_role is. Its function or arguments name what it writes. @param
 * more SQL of what else is asked of the trigger `t`, its arguments `args`, its function `p` and the `code` of that
 */
const hasTriggerSql = (bits: number, writes: string, more = 't.tgqual IS NULL'): string =>
  `EXISTS (SELECT FROM pg_catalog.pg_trigger AS t JOIN pg_catalog.pg_proc AS p ON p.oid = t.tgfoid,
      LATERAL (SELECT ${plainSql(uncommented)}, ${plainSql(`pg_catalog.encode(t.tgargs, 'escape')`)}) AS x (code, args)
    WHERE t.tgrelid = c.oid AND t.tgconstraint = '0' AND t.tgenabled = 'A' AND t.tgattr = ''
      AND (t.tgtype::pg_catalog.int4 & ${bits}) = ${bits}
      AND pg_catalog.strpos(pg_catalog.concat(code, args), ${plainSql(quoteText(writes))}) > 0 AND ${more})`;

/** Where PL/pgSQL sets a record's column, written `!`, or NEW. A function that returns another record has made it. */
const sets =
  '[.]!:=|new:=|(;|begin|then|else|loop|>>)new([.]!)?=|into(strict)?([^;,()]*,)*new([.]!)?(;|,|from|using)';

/** SQL of whether each row is stamped. Of functions in other languages the name is enough. */
function stampsSql(column: string): string {
  const name = plainSql(quoteText(column));
  return `t.tgqual IS NULL AND (p.prolang <> (SELECT l.oid FROM pg_catalog.pg_language AS l WHERE l.lanname = 'plpgsql')
        OR pg_catalog.strpos(args, ${name}) > 0 OR pg_catalog.strpos(code, 'returnnew') = 0
        OR pg_catalog.regexp_like(pg_catalog.replace(code, pg_catalog.concat('.', ${name}), '.!'), '${sets}'))`;
}

/** SQL of the policies that hide rows of the relation `id` from this role; empty if none can. Rights of a role come with others. */
const policiesSql = (id: string): string =>
  `CASE WHEN pg_catalog.row_security_active(${id}) THEN pg_catalog.concat('active ', (
     SELECT pg_catalog.string_agg(pg_catalog.concat(y.oid, '@', y.xmin, ${isForMe}), ' ' ORDER BY y.oid)
       FROM pg_catalog.pg_policy AS y WHERE y.polrelid = ${id})) END`;

const isForMe = `EXISTS (SELECT FROM pg_catalog.unnest(y.polroles) AS r (id) WHERE r.id = '0' OR pg_catalog.pg_has_role(r.id, 'USAGE'))`;

/** One that reads another table, or the time, or calls what may: it shows and hides rows without a write. */
const movingPolicySql = (ids: readonly string[]): string =>
  `(SELECT pg_catalog.min(y.polname::pg_catalog.text) FROM pg_catalog.pg_policy AS y, LATERAL (SELECT y.polqual::pg_catalog.text) AS x (tree)
     WHERE y.polrelid IN (${ids.join(', ')}) AND pg_catalog.row_security_active(y.polrelid) AND y.polcmd IN ('r', '*') AND ${isForMe}
       AND (pg_catalog.regexp_like(tree, '[{](SUBLINK|SQLVALUEFUNCTION :op [0-8] )') OR EXISTS (
         SELECT FROM pg_catalog.regexp_matches(tree, 'funcid ([0-9]+)', 'g') AS m (ids) JOIN pg_catalog.pg_proc AS p ON p.oid = ids[1]::pg_catalog.oid
          WHERE p.provolatile = 'v' OR p.provolatile = 's' AND (p.oid >= '16384' OR p.proname IN ('now', 'transaction_timestamp', 'statement_timestamp', 'age')))))`;

/**
 * As JSON. TRUNCATE, a rewrite, and a trigger that was off change rows and leave their versions; so do a policy, the
 * expression of a generated column and a new name of an enum's value. Tombstones that somebody deletes are counted by
 * the server's statistics, at latest a minute later. Without the right to see the cluster's identity, the start of the
 * server stands for it.
 */
function sequencePointSql(model: Model, changes: ModelChanges): string {
  const { deletes, versionColumn } = changes;
  const relation = oidOf(relationOf(model));
  const tombstones = deletes.kind === 'tombstones' ? oidOf(relationOf(deletes)) : null;
  const read = columnsOf(model, changes).map(quoteText).join(', ');
  const keys = [model.tenantColumn, ...model.keyColumns].map(quoteText).join(', ');
  const stamps = stampsSql(versionColumn);
  const isTracked =
    changes.setBy === 'client'
      ? 'true'
      : `(${hasTriggerSql(forEachRow | before | onInsert, versionColumn, stamps)} AND ${hasTriggerSql(forEachRow | before | onUpdate, versionColumn, stamps)})`;
  const notesDeletes =
    deletes.kind === 'tombstones'
      ? `${hasTriggerSql(forEachRow | onDelete, deletes.relation.name)} AND ${hasTriggerSql(forEachRow | onUpdate, deletes.relation.name, 'true')}`
      : 'true';
  // Of them the operator says when they are deleted.
  const isPruned = deletes.kind === 'tombstones' && deletes.days !== null;
  return `WITH RECURSIVE parts (id) AS (
      SELECT ${relation}
      UNION
      SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i JOIN parts ON parts.id = i.inhparent),
    graves (id) AS (
      SELECT ${isPruned ? null : tombstones}::pg_catalog.oid
      UNION
      SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i JOIN graves ON graves.id = i.inhparent),
    tables AS (
      SELECT c.oid, c.relkind, pg_catalog.concat(c.relfilenode, (
               SELECT pg_catalog.string_agg(pg_catalog.concat(' ', t.oid, '@', t.xmin, '/', p.xmin), '' ORDER BY t.oid)
                 FROM pg_catalog.pg_trigger AS t JOIN pg_catalog.pg_proc AS p ON p.oid = t.tgfoid
                WHERE t.tgrelid = c.oid AND t.tgconstraint = '0' AND t.tgenabled IN ('O', 'A'))) AS state,
             c.relkind = 'r' AND c.relpersistence = 'p' AS plain, ${isTracked} AS tracked, ${notesDeletes} AS notes
        FROM parts JOIN pg_catalog.pg_class AS c ON c.oid = parts.id WHERE c.relkind <> 'p')
    SELECT pg_catalog.json_build_object(
      'server', pg_catalog.concat_ws('/',
         CASE WHEN pg_catalog.has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE')
              THEN (SELECT system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system())
              ELSE pg_catalog.extract('epoch', pg_catalog.pg_postmaster_start_time())::pg_catalog.text END,
         CASE WHEN NOT pg_catalog.pg_is_in_recovery()
              THEN pg_catalog."left"(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8) END,
         (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())),
      'columns', (SELECT pg_catalog.string_agg(pg_catalog.concat(a.attname, ' ', a.attnum, ' ', a.atttypid, ' ', a.atttypmod, (
                      SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef AS d
                       WHERE a.attgenerated <> '' AND d.adrelid = a.attrelid AND d.adnum = a.attnum)), ', ' ORDER BY a.attname)
                    FROM pg_catalog.pg_attribute AS a
                   WHERE a.attrelid = ${relation} AND NOT a.attisdropped AND a.attname IN (${read})),
      'policies', ${policiesSql(relation)},
      'movingPolicy', ${movingPolicySql(tombstones === null ? [relation] : [relation, tombstones])},
      'relation', (SELECT pg_catalog.concat(c.oid, c.relkind) FROM pg_catalog.pg_class AS c WHERE c.oid = ${relation}),
      'tables', (SELECT pg_catalog.json_object_agg(id, state) FROM (
         SELECT tables.oid::pg_catalog.text, state FROM tables
         UNION ALL
         SELECT pg_catalog.concat('${tombstonesPrefix}', c.oid), pg_catalog.concat_ws(' ', c.relfilenode, pg_catalog.pg_stat_get_tuples_deleted(c.oid), pg_catalog.pg_stat_get_tuples_updated(c.oid))
           FROM graves JOIN pg_catalog.pg_class AS c ON c.oid = graves.id
         UNION ALL
         SELECT pg_catalog.concat('enum ', e.oid), e.enumlabel FROM pg_catalog.pg_enum AS e WHERE e.enumtypid IN (
           SELECT COALESCE(NULLIF(y.typelem, '0'), NULLIF(y.typbasetype, '0'), y.oid) FROM pg_catalog.pg_attribute AS a
             JOIN pg_catalog.pg_type AS y ON y.oid = a.atttypid
            WHERE a.attrelid = ${relation} AND NOT a.attisdropped AND a.attname IN (${read}))) AS states (id, state)),
      'tombstones', ${tombstones === null ? 'NULL' : `(SELECT pg_catalog.concat_ws(' ', c.relfilenode, ${policiesSql('c.oid')}) FROM pg_catalog.pg_class AS c WHERE c.oid = ${tombstones})`},
      'isUnique', NOT EXISTS (SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_inherits AS i ON i.inhparent = c.oid
                               WHERE c.oid = ${relation} AND c.relkind <> 'p')
        AND ${uniqueKeySql(relation, `ARRAY[${keys}]`)},
      'isPlain', (SELECT pg_catalog.bool_and(plain) FROM tables),
      'isTracked', (SELECT pg_catalog.bool_and(tracked) FROM tables),
      'notesDeletes', (SELECT pg_catalog.bool_and(notes) FROM tables),
      'versionType', (SELECT pg_catalog.format_type(a.atttypid, NULL) FROM pg_catalog.pg_attribute AS a
         WHERE a.attrelid = ${relation} AND a.attname = ${quoteText(versionColumn)} AND NOT a.attisdropped),
      'isStandby', pg_catalog.pg_is_in_recovery(),
      'nowMs', pg_catalog.floor(pg_catalog.extract('epoch', pg_catalog.clock_timestamp()) * 1000),
      'snapshot', pg_catalog.pg_current_snapshot()::pg_catalog.text)::pg_catalog.text AS point`;
}

/** Those of expressions are not among them. */
function columnsOf(model: Model, { versionColumn, deletes }: ModelChanges): readonly string[] {
  const plain = model.columns.filter(({ expression }) => expression === null);
  const marker = deletes.kind === 'column' ? [deletes.column] : [];
  const more = [model.tenantColumn, ...model.keyColumns, versionColumn, ...marker];
  return [...new Set([...more, ...plain.map(({ name }) => name)])];
}

/** The hours by which a program may set a time late, unless look_back_hours of the model says it. */
const usualLateHours = 24;

interface PointRow {
  readonly server: string;
  readonly columns: string | null;
  readonly relation: string;
  readonly tables: Readonly<Record<string, string>> | null;
  readonly policies: string | null;
  readonly movingPolicy: string | null;
  readonly tombstones: string | null;
  readonly isUnique: boolean;
  readonly isPlain: boolean | null;
  readonly isTracked: boolean | null;
  readonly notesDeletes: boolean | null;
  readonly versionType: string | null;
  readonly isStandby: boolean;
  readonly nowMs: number;
  readonly snapshot: string;
}

/** @param openSince of a look before the snapshot. @throws SluiceError if it cannot be exported by its changes */
function sequenceOf(
  model: Model,
  changes: ModelChanges,
  answer: string,
  openSince: number | null,
): SequenceReading {
  const row = JSON.parse(answer) as PointRow;
  const versionType = checkTable(model, changes, row);
  const shape = JSON.stringify([row.relation, row.columns, row.policies, row.tombstones]);
  const point: SequencePoint = {
    server: row.server,
    relation: digest(shape),
    model: digest(JSON.stringify({ ...model, intervalColumn: null })),
    tables: row.tables ?? {},
    versionType,
  };
  const [xmin = '', xmax = ''] = row.snapshot.split(':');
  const isTime = versionType !== 'xid8';
  const lateMs = (model.lookBackHours ?? usualLateHours) * 3_600_000;
  const since = changes.setBy === 'client' ? row.nowMs - lateMs : openSince;
  return {
    point,
    atMs: row.nowMs,
    next: isTime ? timeText(since) : xmin,
    isUnique: row.isUnique,
    isSettled: changes.setBy === 'database',
    deletesBy: changes.deletes.kind,
    compareEvery: changes.deletes.kind === 'compare' ? changes.deletes.every : null,
    tombstoneDays: changes.deletes.kind === 'tombstones' ? changes.deletes.days : null,
    isCounterLower: (from) => !isTime && BigInt(xmax) < BigInt(from),
  };
}

/** @throws SluiceError `source.model_invalid`, `model.version_without_trigger` */
function checkTable(model: Model, changes: ModelChanges, row: PointRow): VersionType {
  const invalid = (detail: string) => new SluiceError('source.model_invalid', detail);
  const { versionColumn } = changes;
  const name = `${model.relation.schema}.${model.relation.name}`;
  if (row.isStandby) throw invalid('exports of changes read the primary. Name it as source');
  if (!/[rp]$/.test(row.relation)) {
    throw invalid(`${name} is no table. Exports of changes read a table or a partitioned table`);
  }
  if (row.isPlain === false) {
    throw invalid(
      `${name}, or a partition of it, is a foreign or an unlogged table, whose rows can change unseen`,
    );
  }
  if (row.movingPolicy !== null) {
    throw invalid(
      `the policy ${row.movingPolicy} reads another table or the time, so it shows and hides rows of ${name} without a write. Write it with columns and settings alone, or use mode snapshot`,
    );
  }
  const { versionType } = row;
  if (versionType !== 'xid8' && versionType !== 'timestamp with time zone') {
    const present = versionType === null ? 'there is none' : `it is ${versionType}`;
    throw invalid(`version_column ${versionColumn} must be xid8 or timestamptz, and ${present}`);
  }
  if (row.isTracked === false) {
    const detail = `${name}, or a partition of it, has no trigger that sets ${versionColumn} before each insert and update, without a condition, and is ENABLE ALWAYS`;
    throw new SluiceError('model.version_without_trigger', detail);
  }
  if (row.notesDeletes === false) {
    const detail = `${name}, or a partition of it, has no triggers that write tombstones for each delete and for each update of a key, without UPDATE OF, and are ENABLE ALWAYS`;
    throw new SluiceError('model.version_without_trigger', detail);
  }
  return versionType;
}

const digest = (text: string): string =>
  createHash('sha256').update(text).digest('hex').slice(0, 32);

const timeText = (ms: number | null): string | null =>
  ms === null ? null : toTimestamp(Math.floor(ms));

/** More than from a message's time until it shows, and than a usual step of the server's clock. */
const marginMs = 60_000;

/** None that is open after the look has an earlier `now()`. Null: other roles' times are hidden, or one is prepared. */
export function openSince({ nowMs, sessions, locks, prepared }: Look): number | null {
  const marked = new Set(locks.filter(({ own }) => own).map(({ pid }) => pid));
  const writers = sessions.filter(
    ({ pid, counts, isUpkeep, sameRole }) =>
      counts && isUpkeep !== true && !(sameRole && marked.has(pid)),
  );
  if (prepared.length > 0 || writers.some(({ hidden }) => hidden)) return null;
  const starts = writers.flatMap(({ transactionAt, messageAt }) =>
    [transactionAt, messageAt].flatMap((at) => (at === null ? [] : [at / 1000])),
  );
  return Math.min(nowMs, ...starts) - marginMs;
}

export interface SequencePlan {
  readonly sql: string;
  of(answer: string, openSince: number | null): SequenceReading;
}

export function changesOf({ name, changes }: Model): ModelChanges {
  if (changes) return changes;
  const detail = `${name} has no version_column, so its changes cannot be exported`;
  throw new SluiceError('source.model_invalid', detail);
}

export function sequencePlanOf(model: Model): SequencePlan {
  const changes = changesOf(model);
  return {
    sql: sequencePointSql(model, changes),
    of: (answer, openSince) => sequenceOf(model, changes, answer, openSince),
  };
}

export function versionColumnOf(columns: readonly Column[]): Column {
  const version = columns.find(({ name }) => name === changeColumns.version);
  if (!version) throw new Error('the rows of an element have no version');
  return version;
}
