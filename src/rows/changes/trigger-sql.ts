import { createHash } from 'node:crypto';
import type { Model } from '../../foundation/domain/model.ts';
import { quoteName } from '../query/print.ts';

export interface TriggerStatement {
  readonly about: string;
  readonly sql: string;
}

const nameOf = ({ schema, name }: Model['relation']): string =>
  `${quoteName(schema)}.${quoteName(name)}`;

/** PostgreSQL cuts names after 63 bytes. Two that are cut to the same text would be one function, or one index. */
function shortName(prefix: string, name: string): string {
  const whole = `${prefix}_${name}`;
  if (Buffer.byteLength(whole) <= 63) return quoteName(whole);
  return quoteName(`${prefix}_${createHash('sha256').update(name).digest('hex').slice(0, 16)}`);
}

/**
 * A column with the transaction that last wrote a row, its trigger, an index, and with `deletes: tombstones` the table
 * of deleted keys. May be run again. @returns none if the model has no version_column
 */
export function triggerStatements(model: Model): readonly TriggerStatement[] {
  const { changes, relation, tenantColumn } = model;
  if (!changes) return [];
  const { deletes } = changes;
  const table = nameOf(relation);
  const version = quoteName(changes.versionColumn);
  const tenant = quoteName(tenantColumn);
  const stamp = `${quoteName(relation.schema)}.${shortName('sluice_stamp', relation.name)}`;
  const statements = [
    {
      about:
        'The transaction that last wrote the row. Existing rows keep null until they are written.',
      sql: `ALTER TABLE ${table} ADD COLUMN IF NOT EXISTS ${version} pg_catalog.xid8`,
    },
    {
      about: 'Sets it, whatever a program sends.',
      sql: `CREATE OR REPLACE FUNCTION ${stamp}() RETURNS trigger LANGUAGE plpgsql AS $sluice$ BEGIN NEW.${version} := pg_catalog.pg_current_xact_id(); RETURN NEW; END $sluice$`,
    },
    ...triggerOf(table, {
      // The last of the triggers that may change the row: they fire in the order of their names.
      name: 'zz_sluice_stamp',
      event: 'BEFORE INSERT OR UPDATE',
      call: stamp,
      about: 'ALWAYS: also for rows that a subscription of logical replication writes.',
    }),
    {
      about:
        'Finds changed rows. On a large table in use, create it by hand with CONCURRENTLY first.',
      sql: `CREATE INDEX IF NOT EXISTS ${shortName('sluice_version', relation.name)} ON ${table} (${tenant}, ${version})`,
    },
  ];
  if (deletes.kind !== 'tombstones') return statements;
  return [...statements, ...tombstoneStatements(model, nameOf(deletes.relation), deletes.relation)];
}

function tombstoneStatements(
  { changes, relation, tenantColumn, keyColumns }: Model,
  tombstones: string,
  { name }: Model['relation'],
): readonly TriggerStatement[] {
  const table = nameOf(relation);
  const version = quoteName(changes?.versionColumn ?? '');
  const columns = [...new Set([tenantColumn, ...keyColumns])].map(quoteName);
  const write = `${quoteName(relation.schema)}.${shortName('sluice_tombstone', relation.name)}`;
  const rowOf = (of: string) => `ROW(${columns.map((column) => `${of}.${column}`).join(', ')})`;
  // By their bytes: a text of citext that is spelled in another way is another key to readers.
  const isOther = `pg_catalog.record_image_ne(${rowOf('OLD')}, ${rowOf('NEW')})`;
  return [
    {
      about:
        'The keys of deleted rows. Rows older than tombstone_days of the model may be deleted by deleted_at.',
      sql: `CREATE TABLE IF NOT EXISTS ${tombstones} AS SELECT ${columns.join(', ')}, ${version}, pg_catalog.now() AS deleted_at FROM ${table} WITH NO DATA`,
    },
    {
      about: 'When the row was deleted.',
      sql: `ALTER TABLE ${tombstones} ALTER COLUMN deleted_at SET DEFAULT pg_catalog.now()`,
    },
    {
      about: 'Finds new tombstones.',
      sql: `CREATE INDEX IF NOT EXISTS ${shortName('sluice_version', name)} ON ${tombstones} (${quoteName(tenantColumn)}, ${version})`,
    },
    {
      about:
        'Writes a tombstone with the rights of its owner, so that programs need none on the table.',
      sql: `CREATE OR REPLACE FUNCTION ${write}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $sluice$ BEGIN INSERT INTO ${tombstones} (${columns.join(', ')}, ${version}) VALUES (${columns.map((column) => `OLD.${column}`).join(', ')}, pg_catalog.pg_current_xact_id()); RETURN NULL; END $sluice$`,
    },
    ...triggerOf(table, {
      name: 'zz_sluice_deleted',
      event: 'AFTER DELETE',
      call: write,
      about: 'For rows that are deleted, or move to another partition.',
    }),
    ...triggerOf(table, {
      name: 'zz_sluice_moved',
      event: 'AFTER UPDATE',
      when: isOther,
      call: write,
      about: 'For rows whose key or project changes: the old one is gone.',
    }),
  ];
}

interface Trigger {
  readonly name: string;
  readonly event: string;
  readonly when?: string;
  readonly call: string;
  readonly about: string;
}

function triggerOf(table: string, { name, event, when, call, about }: Trigger): TriggerStatement[] {
  const condition = when === undefined ? '' : ` WHEN (${when})`;
  return [
    {
      about: 'So that all of this can be run again.',
      sql: `DROP TRIGGER IF EXISTS ${name} ON ${table}`,
    },
    {
      about,
      sql: `CREATE TRIGGER ${name} ${event} ON ${table} FOR EACH ROW${condition} EXECUTE FUNCTION ${call}()`,
    },
    {
      about: 'It fires whatever session_replication_role is.',
      sql: `ALTER TABLE ${table} ENABLE ALWAYS TRIGGER ${name}`,
    },
  ];
}
