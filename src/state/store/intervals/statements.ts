import type { StoreTraits } from '../../../foundation/domain/store-traits.ts';
import type {
  Acknowledgement,
  Balance,
  ChainBeginning,
  Sum,
} from '../../../foundation/domain/statement.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import type { OffsetPage, PageRequest } from '../database/lists.ts';
import { findStoreTraits } from '../files/store-traits.ts';

/** How far the statements of an export are. */
export interface StatementChain {
  /** Null before the first statement. */
  readonly chain: string | null;
  /** The newest statement; 0 before the first. */
  readonly number: number;
  readonly sha256: string | null;
  /** The start of the chain's first period, and the end of its newest one. */
  readonly beganAt: Timestamp | null;
  readonly periodEnd: Timestamp | null;
  readonly closing: Sum | null;
  readonly acknowledged: Acknowledgement | null;
  /** Why the next statement begins a chain; null: it does not. */
  readonly begins: ChainBeginning | null;
  readonly place: string | null;
  /** The newest statement at that place. */
  readonly putNumber: number;
  readonly tries: number;
}

const chainColumns = `chain, number, sha256, api_time(began_at) as "beganAt", api_time(period_end) as "periodEnd", closing, acknowledged,
  begins, place, put_number as "putNumber", tries`;

/** Locks the chain of an export: one statement is made, or noted as put, after the other. */
export async function lockChain(tx: Sql, exportId: string): Promise<StatementChain> {
  const [row] = await tx.query<StatementChain>(
    `select ${chainColumns} from statement_chains where export_id = $1 for update`,
    [exportId],
  );
  if (!row) throw new Error('the export has no row of statements');
  return row;
}

/** The newest statement, as customers compare it. */
export interface StatementHead {
  readonly number: number;
  readonly sha256: string | null;
  readonly madeAt: Timestamp | null;
  /** The newest one that is at the destination. */
  readonly putNumber: number;
  /** Why a later one is not; null: it will be, or is. */
  readonly putFault: string | null;
  readonly acknowledged: Acknowledgement | null;
  /** Rows of the balance of the statement that was acknowledged; null if there is none, or it was replaced. */
  readonly owedRows: number | null;
}

export async function findHead(sql: Sql, exportId: string): Promise<StatementHead> {
  const [row] = await sql.query<StatementHead>(
    `select c.number, c.sha256, api_time(s.made_at) as "madeAt", c.put_number as "putNumber", c.put_fault as "putFault",
            c.acknowledged, (a.balance->'closing'->>'rows')::bigint as "owedRows"
       from statement_chains c left join statements s on s.export_id = c.export_id and s.number = c.number
       left join statements a on a.export_id = c.export_id and a.number = (c.acknowledged->>'number')::integer
        and a.sha256 = c.acknowledged->>'sha256'
      where c.export_id = $1`,
    [exportId],
  );
  const none = { number: 0, sha256: null, madeAt: null, putNumber: 0, putFault: null };
  return row ?? { ...none, acknowledged: null, owedRows: null };
}

/**
 * Stores what a receiver has loaded, if the statement has this digest.
 *
 * @returns the digest of the statement; null if there is none
 */
export async function acknowledgeStatement(
  tx: Sql,
  exportId: string,
  { number, sha256, rows }: Omit<Acknowledgement, 'at'>,
): Promise<string | null> {
  const [statement] = await tx.query<{ sha256: string }>(
    'select sha256 from statements where export_id = $1 and number = $2',
    [exportId, number],
  );
  if (statement?.sha256 !== sha256) return statement?.sha256 ?? null;
  await tx.query(
    `update statement_chains set acknowledged = jsonb_build_object('number', $2::integer, 'sha256', $3::text, 'rows', $4::bigint,
            'at', api_time(clock_timestamp())) where export_id = $1`,
    [exportId, number, sha256, rows],
  );
  return sha256;
}

export interface ListedStatement {
  readonly number: number;
  readonly sha256: string;
  readonly madeAt: Timestamp;
  readonly bytes: number;
  readonly periodStart: Timestamp;
  readonly periodEnd: Timestamp;
  /** Why a chain begins with it; null: none does. */
  readonly begins: string | null;
  readonly balance: Balance;
}

/** Newest first. */
export async function listStatements(
  sql: Sql,
  exportId: string,
  { limit, offset }: PageRequest,
): Promise<OffsetPage<ListedStatement>> {
  const [[total], results] = await Promise.all([
    sql.query<{ count: number }>('select count(*) from statements where export_id = $1', [
      exportId,
    ]),
    sql.query<ListedStatement>(
      `select number, sha256, api_time(made_at) as "madeAt", octet_length(body) as bytes,
              api_time(period_start) as "periodStart", api_time(period_end) as "periodEnd", begins, balance
         from statements where export_id = $1 order by number desc limit $2 offset $3`,
      [exportId, limit, offset],
    ),
  ]);
  return { count: total?.count ?? 0, results };
}

/** The bytes of a statement; null if there is none. */
export async function findStatement(
  sql: Sql,
  exportId: string,
  number: number,
): Promise<Buffer | null> {
  const [row] = await sql.query<{ body: Buffer }>(
    'select body from statements where export_id = $1 and number = $2',
    [exportId, number],
  );
  return row?.body ?? null;
}

export interface NewStatement {
  readonly number: number;
  readonly body: Buffer;
  readonly sha256: string;
  readonly period: { readonly start: Timestamp; readonly end: Timestamp };
  /** Why a chain begins with it; null: none does. */
  readonly begins: string | null;
}

/** Stores a statement that is in the bucket, or will be. */
export async function insertStatement(
  tx: Sql,
  exportId: string,
  { number, body, sha256, period, begins }: NewStatement,
): Promise<void> {
  const { balance } = JSON.parse(String(body)) as { readonly balance: Balance };
  await tx.query(
    `insert into statements (export_id, number, body, sha256, period_start, period_end, begins, balance)
     values ($1, $2, $3, $4, $5, $6, $7, $8)
     on conflict (export_id, number) do update set body = excluded.body, sha256 = excluded.sha256, period_start = excluded.period_start,
            period_end = excluded.period_end, begins = excluded.begins, balance = excluded.balance`,
    [
      ...[exportId, number, body, sha256, period.start, period.end, begins],
      JSON.stringify(balance),
    ],
  );
}

/** Where the chain is after a statement. @param nextAt when the next one is due */
export async function advanceChain(
  tx: Sql,
  exportId: string,
  after: Pick<StatementChain, 'chain' | 'number' | 'sha256' | 'beganAt' | 'periodEnd' | 'closing'>,
  nextAt: Timestamp,
): Promise<void> {
  await tx.query(
    `update statement_chains set chain = $2, number = $3, sha256 = $4, began_at = $5, period_end = $6, closing = $7, begins = null,
            next_at = $8 where export_id = $1`,
    [
      ...[exportId, after.chain, after.number, after.sha256, after.beganAt, after.periodEnd],
      ...[JSON.stringify(after.closing), nextAt],
    ],
  );
}

/** The statement cannot be made now. It is due again later. */
export async function putOffStatement(sql: Sql, exportId: string): Promise<void> {
  await sql.query(
    `update statement_chains set next_at = now() + interval '10 minutes' where export_id = $1 and next_at <= now()`,
    [exportId],
  );
}

/** Notes up to which number the statements are at the place. */
export async function notePut(
  tx: Sql,
  exportId: string,
  place: string,
  putNumber: number,
): Promise<void> {
  await tx.query(
    `update statement_chains set place = $2, put_number = $3, put_fault = null, tries = 0, try_after = now() where export_id = $1`,
    [exportId, place, putNumber],
  );
}

/** The next try comes later and later, up to an hour. @returns whether it is the first that failed */
export async function notePutFault(sql: Sql, exportId: string, fault: string): Promise<boolean> {
  const [row] = await sql.query<{ tries: number }>(
    `update statement_chains set put_fault = $2, tries = tries + 1,
            try_after = now() + least(3600, 5 * power(2, least(tries, 10))) * (0.5 + random() / 2) * interval '1 s'
      where export_id = $1 returning tries`,
    [exportId, fault],
  );
  return row?.tries === 1;
}

/** A statement of this export that our database lacks. */
export type ForeignStatement = Omit<NewStatement, 'begins'>;

/** Other statements have numbers of ours: ours from there on are not put, and a chain begins. */
export async function beginChain(
  tx: Sql,
  exportId: string,
  beginning: ChainBeginning,
  firstReplaced: number,
  foreign: readonly ForeignStatement[],
): Promise<void> {
  await tx.query('delete from statements where export_id = $1 and number >= $2', [
    exportId,
    firstReplaced,
  ]);
  for (const statement of foreign) {
    await insertStatement(tx, exportId, { ...statement, begins: null });
  }
  await tx.query(
    `update statement_chains set begins = $2, number = $3, sha256 = $4, put_number = $3, put_fault = null, tries = 0,
            try_after = now(), next_at = now() where export_id = $1`,
    [exportId, JSON.stringify(beginning), beginning.last_number, beginning.last_sha256],
  );
}

/** Where the statements of an export are put. */
export async function findPlaceOfStatements(
  sql: Sql,
  exportId: string,
): Promise<{
  readonly externalId: string;
  readonly destinationVersion: number;
  readonly traits: StoreTraits | null;
} | null> {
  const [row] = await sql.query<{ externalId: string; destinationVersion: number }>(
    `select p.external_id as "externalId", e.destination_version as "destinationVersion"
       from batch_exports e join projects p on p.id = e.team_id where e.id = $1`,
    [exportId],
  );
  if (!row) return null;
  return { ...row, traits: await findStoreTraits(sql, { exportId, ...row }) };
}

const isDue = `e.deleted_at is null and (c.next_at <= now() or (c.put_number < c.number and c.try_after <= now()))
  and not exists (select from guarded_work g where g.kind = 'statement' and g.id = c.export_id::text and g.set_aside_at is not null)`;

/** Teams with statements to make or to put, in random order. */
export async function findTeamsWithStatements(sql: Sql, limit: number): Promise<number[]> {
  const rows = await sql.query<{ teamId: number }>(
    `select e.team_id as "teamId" from statement_chains c join batch_exports e on e.id = c.export_id
      where (c.next_at <= now() or c.put_number < c.number) and ${isDue} group by 1 order by random() limit $1`,
    [limit],
  );
  return rows.map(({ teamId }) => teamId);
}

/** An export with a statement to make or to put. */
export interface DueStatement {
  readonly exportId: string;
  readonly isToMake: boolean;
}

/** @param done exports that were served already */
export async function findDueStatement(
  sql: Sql,
  teamId: number,
  done: readonly string[],
): Promise<DueStatement | null> {
  const [row] = await sql.query<DueStatement>(
    `select c.export_id as "exportId", c.next_at <= now() as "isToMake"
       from statement_chains c join batch_exports e on e.id = c.export_id
      where e.team_id = $1 and ${isDue} and c.export_id <> all ($2::uuid[]) order by c.next_at limit 1`,
    [teamId, done],
  );
  return row ?? null;
}

/** Where the first period of an export begins: at its first tick; null before it. */
export async function findFirstPeriod(sql: Sql, exportId: string): Promise<Timestamp | null> {
  const [row] = await sql.query<{ start: Timestamp | null }>(
    'select api_time(min(data_interval_start)) as start from ticks where export_id = $1',
    [exportId],
  );
  return row?.start ?? null;
}

/** The steps that change the rows of a project, without their secrets, in their order. */
export async function listEnabledSteps(sql: Sql, teamId: number): Promise<readonly object[]> {
  return sql.query<object>(
    `select id, version, plugin, config from pipeline_transformation_configs
      where team_id = $1 and enabled and not deleted order by "order", id`,
    [teamId],
  );
}
