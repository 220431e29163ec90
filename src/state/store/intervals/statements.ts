import type { StoreTraits } from '../../../foundation/domain/store-traits.ts';
import type {
  Acknowledgement,
  Balance,
  ChainBeginning,
  Sum,
} from '../../../foundation/domain/statement.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import {
  command,
  inPages,
  queryFirst,
  queryFlag,
  queryNumber,
  queryRows,
  queryValue,
  queryValues,
} from '../database/statement.ts';
import { findStoreTraits } from '../files/store-traits.ts';

/** The newest statement of an export, and what follows. */
export interface StatementChain {
  /** The newest statement; 0 before the first. */
  readonly number: number;
  readonly sha256: string | null;
  /** The start of the chain's first period, and the end of its newest one. */
  readonly beganAt: Timestamp | null;
  readonly periodEnd: Timestamp | null;
  readonly closing: Sum | null;
  readonly acknowledged: Acknowledgement | null;
  readonly begins: ChainBeginning | null;
  readonly place: string | null;
  readonly putNumber: number;
}

/** Locks the export: one statement is made, or noted as put, after the other. Null: there is none. */
export const lockChain = queryFirst<StatementChain, [exportId: string]>(`
     select e.statement_number as number, e.statement_sha256 as sha256, api_time(e.statements_began_at) as "beganAt",
            api_time(s.period_end) as "periodEnd", s.balance->'closing' as closing, e.acknowledged, e.statement_begins as begins,
            e.statement_place as place, e.statement_put as "putNumber"
       from (select * from batch_exports where id = $1 for no key update) e
       left join statements s on s.export_id = e.id and s.number = e.statement_number`);

/** The newest statement, as customers compare it. */
export interface StatementHead
  extends Pick<StatementChain, 'number' | 'sha256' | 'putNumber' | 'acknowledged'> {
  readonly madeAt: Timestamp | null;
  /** Why a later one is not; null: it will be, or is. */
  readonly putFault: string | null;
  /** Rows of the balance of the statement that was acknowledged; null if there is none, or it was replaced. */
  readonly owedRows: number | null;
}

export async function findHead(sql: Sql, exportId: string): Promise<StatementHead> {
  const [row] = await sql.query<StatementHead>(
    `select e.statement_number as number, e.statement_sha256 as sha256, api_time(s.made_at) as "madeAt", e.statement_put as "putNumber",
            e.statement_fault as "putFault", e.acknowledged, (a.balance->'closing'->>'rows')::bigint as "owedRows"
       from batch_exports e left join statements s on s.export_id = e.id and s.number = e.statement_number
       left join statements a on a.export_id = e.id and a.number = (e.acknowledged->>'number')::integer
        and a.sha256 = e.acknowledged->>'sha256'
      where e.id = $1`,
    [exportId],
  );
  const none = { number: 0, sha256: null, madeAt: null, putNumber: 0, putFault: null };
  return row ?? { ...none, acknowledged: null, owedRows: null };
}

/** Stores what a receiver has loaded. */
export const storeAcknowledgement = command(
  `update batch_exports set acknowledged = jsonb_build_object('number', $2::integer, 'sha256', $3::text, 'rows', $4::bigint,
            'at', api_time(clock_timestamp())) where id = $1`,
  (exportId: string, { number, sha256, rows }: Omit<Acknowledgement, 'at'>) => [
    exportId,
    number,
    sha256,
    rows,
  ],
);

/** Records an event for the targets of the customer and of the installation. */
export const notifyOfLoad = command(
  `select notify_targets($1, $2, jsonb_build_object('acknowledged', $3::jsonb))`,
  (
    exportId: string,
    type: 'load.differs' | 'load.agrees',
    acknowledged: Readonly<Record<string, unknown>>,
  ) => [exportId, type, JSON.stringify(acknowledged)],
);

/** The digest of a statement, and the rows of its balance; null if there is none. */
export const findBalance = queryFirst<
  { sha256: string; rows: number },
  [exportId: string, number: number]
>(
  `select sha256, (balance->'closing'->>'rows')::bigint as rows from statements where export_id = $1 and number = $2`,
);

export interface ListedStatement {
  readonly number: number;
  readonly sha256: string;
  readonly madeAt: Timestamp;
  readonly bytes: number;
  readonly periodStart: Timestamp;
  readonly periodEnd: Timestamp;
  readonly begins: string | null;
  readonly balance: Balance;
}

export const listStatements = inPages(
  queryNumber<[exportId: string]>('select count(*) from statements where export_id = $1'),
  queryRows<ListedStatement, [exportId: string, limit: number, offset: number]>(`
      select number, sha256, api_time(made_at) as "madeAt", octet_length(body) as bytes,
              api_time(period_start) as "periodStart", api_time(period_end) as "periodEnd", begins, balance
         from statements where export_id = $1 order by number desc limit $2 offset $3`),
);

export const findStatement = queryValue<Buffer, [exportId: string, number: number]>(
  'select body from statements where export_id = $1 and number = $2',
);

export interface NewStatement {
  readonly number: number;
  readonly body: Buffer;
  readonly sha256: string;
}

/** Members of a statement that lists show. */
interface Listed {
  readonly begins: ChainBeginning | null;
  readonly period: { readonly start: Timestamp; readonly end: Timestamp };
  readonly balance: Balance;
}

/** Stores a statement that is in the bucket, or will be. */
export async function insertStatement(
  tx: Sql,
  exportId: string,
  { number, body, sha256 }: NewStatement,
): Promise<void> {
  const { begins, period, balance } = JSON.parse(String(body)) as Listed;
  await tx.query(
    `insert into statements (export_id, number, body, sha256, period_start, period_end, begins, balance)
     values ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [
      ...[exportId, number, body, sha256, period.start, period.end, begins],
      JSON.stringify(balance),
    ],
  );
}

/** The newest statement is another one. @param nextAt when the next one is due */
export const advanceChain = command(
  `update batch_exports set statement_number = $2, statement_sha256 = $3, statements_began_at = $4, statement_begins = null,
            statement_at = $5 where id = $1`,
  (
    exportId: string,
    { number, sha256, beganAt }: Pick<StatementChain, 'number' | 'sha256' | 'beganAt'>,
    nextAt: Timestamp,
  ) => [exportId, number, sha256, beganAt, nextAt],
);

/** When the statement before the newest `most - 1` was made less than an hour ago: how long until it is an hour old; null: it is. */
export const findWaitMs = queryValue<number, [exportId: string, most: number]>(
  `select ceil(extract(epoch from made_at + interval '1 hour' - clock_timestamp()) * 1000)::bigint as ms
       from statements where export_id = $1 and made_at > clock_timestamp() - interval '1 hour'
      order by number desc limit 1 offset $2`,
  (exportId, most) => [exportId, most - 1],
);

/** The statement cannot be made now. It is due again later. */
export const putOffStatement = command<[exportId: string]>(
  `update batch_exports set statement_at = now() + interval '10 minutes' where id = $1 and statement_at <= now()`,
);

/** Notes up to which number the statements are at the place. */
export const notePut = command<[exportId: string, place: string, putNumber: number]>(`
     update batch_exports set statement_place = $2, statement_put = $3, statement_fault = null, statement_tries = 0, statement_after = now()
      where id = $1`);

/** SQL: later and later, up to an hour; nothing before the first failure. */
const delayAfter = (tries: string): string =>
  `case when ${tries} = 0 then 0 else least(3600, 2.5 * power(2, least(${tries}, 11))) end * (0.5 + random() / 2) * interval '1 s'`;

/** The next try comes later and later, up to an hour. @returns whether it is the first that failed */
export const notePutFault = queryFlag<[exportId: string, fault: string]>(`
     update batch_exports set statement_fault = $2, statement_tries = statement_tries + 1,
            statement_after = now() + ${delayAfter('statement_tries + 1')}
      where id = $1 returning statement_tries = 1 as "isFirst"`);

/** Others have our numbers: ours from there on are not put. A store that does so again and again waits longer and longer. */
export async function beginChain(
  tx: Sql,
  exportId: string,
  reason: ChainBeginning,
  last: Pick<NewStatement, 'number' | 'sha256'>,
  firstReplaced: number,
  foreign: readonly NewStatement[],
): Promise<void> {
  await tx.query('delete from statements where export_id = $1 and number >= $2', [
    exportId,
    firstReplaced,
  ]);
  for (const statement of foreign) await insertStatement(tx, exportId, statement);
  await tx.query(
    `update batch_exports set statement_begins = $2, statement_number = $3, statement_sha256 = $4, statement_put = $3, statement_fault = null,
            statement_at = now() + ${delayAfter('statement_tries')}, statement_tries = statement_tries + 1 where id = $1`,
    [exportId, reason, last.number, last.sha256],
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
  /** The key up to which the last list came; null: to the end. */
  readonly listed: string | null;
} | null> {
  const [row] = await sql.query<{
    externalId: string;
    destinationVersion: number;
    listed: string | null;
  }>(
    `select p.external_id as "externalId", e.destination_version as "destinationVersion", e.statement_listed as listed
       from batch_exports e join projects p on p.id = e.team_id where e.id = $1`,
    [exportId],
  );
  if (!row) return null;
  return { ...row, traits: await findStoreTraits(sql, { exportId, ...row }) };
}

const isDue = `e.deleted_at is null and (e.statement_at <= now() or (e.statement_put < e.statement_number and e.statement_after <= now()))
  and not exists (select from guarded_work g where g.kind = 'statement' and g.id = e.id::text and g.set_aside_at is not null)`;

export const findTeamsWithStatements = queryValues<number, [limit: number]>(
  `select e.team_id as "teamId" from batch_exports e where ${isDue} group by 1 order by random() limit $1`,
);

export interface DueStatement {
  readonly exportId: string;
  readonly isToMake: boolean;
}

/** @param done exports that were served already */
export const findDueStatement = queryFirst<
  DueStatement,
  [teamId: number, done: readonly string[]]
>(`
     select e.id as "exportId", e.statement_at <= now() as "isToMake" from batch_exports e
      where e.team_id = $1 and ${isDue} and e.id <> all ($2::uuid[]) order by e.statement_at limit 1`);

/** Where the first period of an export begins: at its first tick; null before it. */
export const findFirstPeriod = queryValue<Timestamp, [exportId: string]>(
  'select api_time(min(data_interval_start)) as start from ticks where export_id = $1',
);

/** The steps that change the rows of a project, without their secrets, in their order. */
export const listEnabledSteps = queryRows<object, [teamId: number]>(`
     select id, version, plugin, config from pipeline_transformation_configs
      where team_id = $1 and enabled and not deleted order by "order", id`);
