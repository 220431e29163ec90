import type { Sql } from '../database/database.ts';

/** Addresses of an organization, confirmed or not. Only the operator deletes confirmed ones. */
export const maxAddresses = 1_000;

/** Mails that ask one address for its confirmation: of an organization ever, and of all organizations in a day. */
const maxRequests = 5;
const maxPerDay = 3;

/**
 * Makes the addresses wait for their confirmation, if they are new or were asked more than a day ago.
 *
 * @returns false if the organization has too many
 */
export async function wantAddresses(
  tx: Sql,
  organizationId: string,
  addresses: readonly string[],
): Promise<boolean> {
  if (addresses.length === 0) return true;
  // What no target names any more makes room for others.
  await tx.query(
    `delete from email_addresses e where e.organization_id = $1 and e.confirmed_at is null
        and e.created_at < now() - interval '30 days'
        and not exists (select from notification_targets t where t.organization_id = $1
              and e.address in (select lower(r) from unnest(t.recipients) as r))`,
    [organizationId],
  );
  await tx.query(
    `insert into email_addresses (organization_id, address)
     select $1, a from unnest($2::text[]) as a
         on conflict (organization_id, address) do update set requested_at = null
      where email_addresses.confirmed_at is null and email_addresses.requests < ${maxRequests}
        and email_addresses.requested_at < now() - interval '1 day'`,
    [organizationId, addresses],
  );
  const [row] = await tx.query<{ count: number }>(
    'select count(*)::int as count from email_addresses where organization_id = $1',
    [organizationId],
  );
  return (row?.count ?? 0) <= maxAddresses;
}

/** Finds which of the addresses have confirmed. */
export async function findConfirmed(
  sql: Sql,
  organizationId: string,
  addresses: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await sql.query<{ address: string }>(
    `select address from email_addresses
      where organization_id = $1 and address = any($2::text[]) and confirmed_at is not null`,
    [organizationId, addresses],
  );
  return new Set(rows.map(({ address }) => address));
}

/** An address that is asked for its confirmation now. */
export interface AskedAddress {
  readonly organizationId: string;
  readonly address: string;
}

/** Takes addresses that wait for their mail, the oldest first, one of each organization. They count as asked. */
export async function claimAddresses(sql: Sql, limit: number): Promise<readonly AskedAddress[]> {
  return sql.query<AskedAddress>(
    `with due as (
       select distinct on (e.organization_id) e.organization_id, e.address, e.not_before
         from email_addresses e
        where e.requested_at is null and e.confirmed_at is null and e.not_before <= now()
          and (select count(*) from email_addresses o
                where o.address = e.address and o.requested_at > now() - interval '1 day') < ${maxPerDay}
        order by e.organization_id, e.not_before
     ), chosen as (select * from due order by not_before limit $1)
     update email_addresses e set requested_at = now(), requests = e.requests + 1
       from chosen c
      where e.organization_id = c.organization_id and e.address = c.address and e.requested_at is null
     returning e.organization_id as "organizationId", e.address`,
    [limit],
  );
}

/** The mail was not sent: it waits again. */
export async function delayAddress(
  sql: Sql,
  { organizationId, address }: AskedAddress,
  waitMs: number,
): Promise<void> {
  await sql.query(
    `update email_addresses set requested_at = null, not_before = now() + $3 * interval '1 ms'
      where organization_id = $1 and address = $2 and confirmed_at is null and requests < ${maxRequests}`,
    [organizationId, address, waitMs],
  );
}

/** @returns false if it was not asked in the last 30 days */
export async function confirmAddress(
  sql: Sql,
  { organizationId, address }: AskedAddress,
): Promise<boolean> {
  const rows = await sql.query(
    `update email_addresses set confirmed_at = coalesce(confirmed_at, now())
      where organization_id = $1 and address = $2
        and (confirmed_at is not null or created_at > now() - interval '30 days') returning 1`,
    [organizationId, address],
  );
  return rows.length === 1;
}
