import type { Sql } from '../database/database.ts';
import { prepared } from '../database/prepared.ts';

/** Whether the next e-mails fit into the hour of their organization. */
export interface EmailReservation {
  readonly granted: boolean;
  /** If not granted: until they fit, in milliseconds. */
  readonly waitMs: number;
}

/** SQL that is true while the first e-mail of an organization that waits does not fit into its hour. */
export const isEmailBlocked = (organization: string): string =>
  `exists (select from sent_emails s where s.organization_id = ${organization} and s.blocked_until > now())`;

/** SQL of the time from which an organization may send its next e-mail; null: now. */
export const emailsBlockedUntil = (organization: string): string =>
  `(select s.blocked_until from sent_emails s where s.organization_id = ${organization} and s.blocked_until > now())`;

// The row exists; the second statement locks it, so that processes that reserve at the same time wait for each other.
const insertSql = prepared(
  'insert into sent_emails (organization_id) values ($1) on conflict do nothing',
);
const reserveSql = prepared(`with current as materialized (
       select coalesce(blocked_until > now(), false) as is_blocked, blocked_until,
              array(select sent from unnest(sent_at) as sent where sent > now() - interval '1 hour' order by sent) as sent
         from sent_emails where organization_id = $1 for update
     ), decided as (
       select *, not is_blocked and cardinality(sent) + $2::int <= $3::int as granted,
              case when is_blocked then blocked_until
                   else sent[cardinality(sent) + $2::int - $3::int] + interval '1 hour' end as until
         from current
     )
     update sent_emails s
        set sent_at = case when granted then sent || array_fill(now(), array[$2::int]) else sent end,
            blocked_until = case when granted then null when $4::boolean then until else d.blocked_until end
       from decided d where s.organization_id = $1
     returning d.granted, coalesce(extract(epoch from d.until - now()) * 1000, 0)::float8 as "waitMs"`);

/**
 * Counts the recipients of one e-mail before it is sent, if they fit: at most `perHour` in any hour. A refused one
 * that waits blocks all later ones of its organization until there is room for it, so a small one does not overtake it.
 *
 * @param recipients at most `perHour`
 * @param waits whether it is tried again later; a test is not
 */
export async function reserveEmails(
  sql: Sql,
  organizationId: string,
  recipients: number,
  perHour: number,
  waits: boolean,
): Promise<EmailReservation> {
  await sql.query(insertSql, [organizationId]);
  const values = [organizationId, recipients, perHour, waits];
  const [row] = await sql.query<EmailReservation>(reserveSql, values);
  if (!row) throw new Error('the record of e-mails was deleted');
  return row;
}

/** Lets what waits be decided anew: the limit may be another one. */
export async function unblockEmails(sql: Sql): Promise<void> {
  await sql.query('update sent_emails set blocked_until = null where blocked_until is not null');
}

/** Takes back what was reserved, because no recipient can have got it. */
export async function returnEmails(
  sql: Sql,
  organizationId: string,
  recipients: number,
): Promise<void> {
  await sql.query(
    `update sent_emails set sent_at = sent_at[1:greatest(cardinality(sent_at) - $2::int, 0)], blocked_until = null
      where organization_id = $1`,
    [organizationId, recipients],
  );
}
