import type { CauseScope } from '../../../foundation/domain/causes.ts';
import { suspicion } from '../../../foundation/domain/causes.ts';
import type { ErrorCode } from '../../../foundation/domain/errors.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { isTime } from '../database/times.ts';
import { isHealing, mayRun } from './healing.ts';

/** What keeps intervals from their data. */
export interface KnownCause {
  readonly id: string;
  readonly scope: CauseScope;
  readonly place: string;
  /** The code of the newest failure there. */
  readonly code: ErrorCode;
  /** Otherwise the place is only suspected. */
  readonly isOpen: boolean;
  readonly beganAt: Timestamp;
  readonly ageMs: number;
  /** When an attempt there failed last. */
  readonly failedAt: Timestamp;
  /** The text of that failure. */
  readonly latestError: string;
}

const knownCause = `jsonb_build_object('id', k.id, 'scope', k.scope, 'place', k.place, 'code', k.code, 'isOpen', k.opened_at is not null,
  'beganAt', api_time(k.began_at), 'failedAt', api_time(k.failed_at),
  'ageMs', (extract(epoch from clock_timestamp() - k.began_at) * 1000)::float8, 'latestError', k.latest_error)`;

/** Maximum causes of a tenant that a claim reads. */
const mostKnown = 200;

/**
 * SQL of the causes that could be about a run of the export `exportId` and the project `p`, as JSON. Almost always there are
 * none.
 */
export const causesOf = (
  exportId: string,
): string => `coalesce((select jsonb_agg(${knownCause}) from (
    select * from causes where organization_id = p.organization_id and scope = 'export' and place = ${exportId}::text
    union all
    (select * from causes where organization_id = p.organization_id and scope = 'destination' order by failed_at desc limit ${mostKnown})
    union all
    (select * from causes where scope = 'source' order by failed_at desc limit ${mostKnown})) k), '[]')`;

/** SQL of the sources that are known not to work, as JSON. */
export const deadSources = `coalesce((select jsonb_agg(place) from causes where scope = 'source' and opened_at is not null), '[]')`;

const noneWaits = `not exists (select from outbox o where o.cause_id = c.id)`;

/** SQL: whether the cause `c` holds nothing up. */
const holdsNothing = `(not exists (select from healing_intervals h where h.cause_id = c.id) and ${noneWaits})`;

/** SQL: whether no run will probe the place of the cause `c`: what it holds up is not run, such as that of a deleted export. */
const isIdle = `(not exists (select from healing_intervals h join batch_exports e on e.id = h.export_id
                      where h.cause_id = c.id and ${mayRun} and ${isHealing}) and ${noneWaits})`;

/** A failure at a place. */
export interface PlaceFailure {
  /** Null if no project asked a source. */
  readonly teamId: number | null;
  readonly scope: CauseScope;
  readonly place: string;
  readonly code: string;
  readonly text: string;
  /** Whether this failure alone shows that the cause lasts: its run has ended. */
  readonly isLasting: boolean;
}

/** A suspicion is forgotten if the place has not failed for an hour. */
const isStale = `c.opened_at is null and c.failed_at < clock_timestamp() - interval '1 hour'`;
const isProven = `not (${isStale}) and c.failures + 1 >= ${suspicion.failures}
  and c.began_at < clock_timestamp() - interval '${suspicion.ms} ms'`;

/** Notes a failure. @returns the cause, and whether it is open now */
export async function noteCause(
  tx: Sql,
  { teamId, scope, place, code, text, isLasting }: PlaceFailure,
): Promise<{ readonly id: string; readonly isOpen: boolean }> {
  const [row] = await tx.query<{ id: string; isOpen: boolean }>(
    `insert into causes as c (scope, organization_id, place, code, latest_error, opened_at, next_probe_at)
     values ($1::text, case when $1 <> 'source' then (select p.organization_id from projects p where p.id = $2) end, $3, $4, $5,
             case when $6::boolean then clock_timestamp() end, clock_timestamp() + interval '1 minute')
     on conflict (organization_id, scope, place) do update
        set code = excluded.code, latest_error = excluded.latest_error, failed_at = clock_timestamp(),
            began_at = case when ${isStale} then clock_timestamp() else c.began_at end,
            failures = case when ${isStale} then 1 else c.failures + 1 end,
            opened_at = coalesce(c.opened_at, case when $6 or ${isProven} then clock_timestamp() end),
            next_probe_at = case when c.opened_at is null then excluded.next_probe_at else c.next_probe_at end
     returning c.id, c.opened_at is not null as "isOpen"`,
    [scope, teamId, place, code, text, isLasting],
  );
  if (!row) throw new Error('the cause was not stored');
  return row;
}

/** Makes a run wait for the open cause that it had an attempt at: the end of the cause makes the run available. */
export async function waitForCause(tx: Sql, runId: string, causeId: string): Promise<void> {
  await tx.query(`update outbox set cause_id = $2 where run_id = $1`, [runId, causeId]);
}

/** Ends causes: what they held up is free. @returns those that there were */
export async function deleteCauses(tx: Sql, ids: readonly string[]): Promise<readonly string[]> {
  const rows = await tx.query<{ id: string }>(
    `with ended as (delete from causes where id = any ($1::uuid[]) returning id),
     freed as (update outbox set available_at = now(), ready = true, cause_id = null where cause_id in (select id from ended))
     select id from ended`,
    [ids],
  );
  return rows.map(({ id }) => id);
}

/** What a cause holds up in one export. */
export interface HeldUp {
  readonly causeId: string;
  readonly isAnnounced: boolean;
  readonly organizationId: string;
  readonly teamId: number;
  readonly exportId: string;
  readonly name: string;
  readonly intervals: number;
  readonly code: ErrorCode;
  readonly since: Timestamp;
}

/** SQL of what the cause `c` holds up, one row for each interval: its export, and whether it has a run that waits. */
const heldUp = `(select h.export_id, false as waits from healing_intervals h where h.cause_id = c.id
                 union all select o.export_id, true from outbox o where o.cause_id = c.id) held
       join batch_exports e on e.id = held.export_id and e.deleted_at is null`;

/** What causes hold up, by export. */
export async function listHeldUp(tx: Sql, ids: readonly string[]): Promise<HeldUp[]> {
  return tx.query<HeldUp>(
    `select c.id as "causeId", c.announced_at is not null as "isAnnounced", p.organization_id as "organizationId", e.team_id as "teamId",
            e.id as "exportId", e.name, count(*)::int as intervals, c.code, c.began_at as since
       from causes c cross join lateral (select e.* from ${heldUp}) e join projects p on p.id = e.team_id
      where c.id = any ($1::uuid[]) group by c.id, p.organization_id, e.id, e.team_id, e.name, e.created_at order by e.created_at, e.id`,
    [ids],
  );
}

/**
 * Open causes that have lasted a minute, hold up something that heals, and are not announced yet; others skip them until the transaction
 * ends. The causes of exports that do not heal would otherwise keep later ones out of the limit.
 */
export async function lockUnannounced(tx: Sql, limit: number): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select c.id from causes c where c.opened_at < clock_timestamp() - interval '1 minute' and c.announced_at is null
        and exists (select from ${heldUp} where held.waits or ${mayRun}) order by c.opened_at limit $1 for update of c skip locked`,
    [limit],
  );
  return rows.map(({ id }) => id);
}

export async function noteAnnounced(tx: Sql, ids: readonly string[]): Promise<void> {
  await tx.query(`update causes set announced_at = clock_timestamp() where id = any ($1::uuid[])`, [
    ids,
  ]);
}

/** What holds an export up may be over: its causes are probed at once. */
export async function hastenProbes(sql: Sql, exportId: string): Promise<void> {
  await sql.query(
    `with hastened as (
       update causes set next_probe_at = least(next_probe_at, clock_timestamp())
        where id in (select cause_id from healing_intervals where export_id = $1
                      union select cause_id from outbox where export_id = $1)
     )
     update healing_intervals set tries = 0, not_before = clock_timestamp() where export_id = $1`,
    [exportId],
  );
}

/** A cause whose probe is due. */
export interface DueCause {
  readonly id: string;
  readonly ageMs: number;
}

/** Which places a duty asks, besides the attempts of runs. */
export type PlacesAsked =
  | { readonly scope: 'source' }
  /** A destination of the project's organization. */
  | { readonly scope: 'destination'; readonly teamId: number };

/** What is known of a place that has failed. */
export interface PlaceCause {
  readonly id: string;
  readonly scope: CauseScope;
  readonly place: string;
  readonly code: ErrorCode;
  /** Otherwise it is only suspected. */
  readonly isOpen: boolean;
  readonly beganAt: Timestamp;
  readonly ageMs: number;
  readonly nextProbeAt: Timestamp;
  readonly latestError: string;
}

/** Almost always there are none. */
export async function listPlaceCauses(sql: Sql, asked: PlacesAsked): Promise<PlaceCause[]> {
  return sql.query<PlaceCause>(
    `select c.id, c.scope, c.place, c.code, c.opened_at is not null as "isOpen", api_time(c.began_at) as "beganAt", api_time(c.next_probe_at) as "nextProbeAt",
            (extract(epoch from clock_timestamp() - c.began_at) * 1000)::float8 as "ageMs", c.latest_error as "latestError"
       from causes c where c.scope = $1 and ($1 = 'source' or c.organization_id = (select organization_id from projects where id = $2))
      order by c.failed_at desc limit ${mostKnown}`,
    [asked.scope, asked.scope === 'source' ? null : asked.teamId],
  );
}

/** Takes the probe of an open cause, if it is due. @param ifIdle only if no run waits for it @returns whether it was taken */
export async function takeProbe(
  sql: Sql,
  id: string,
  delayMs: number,
  ifIdle: boolean,
): Promise<boolean> {
  const rows = await sql.query(
    `update causes c set probes = probes + 1, next_probe_at = clock_timestamp() + $2 * interval '1 ms'
      where c.id = $1 and c.opened_at is not null and ${isTime('c.next_probe_at')} and (not $3 or ${isIdle}) returning c.id`,
    [id, delayMs, ifIdle],
  );
  return rows.length > 0;
}

/**
 * Open causes whose probe is due, longest due first; others skip them until the transaction ends. Not those that hold nothing
 * up: no run could probe them.
 */
export async function lockDueCauses(tx: Sql, limit: number): Promise<DueCause[]> {
  return tx.query<DueCause>(
    `select c.id, (extract(epoch from clock_timestamp() - c.began_at) * 1000)::float8 as "ageMs" from causes c
      where c.opened_at is not null and ${isTime('c.next_probe_at')} and not ${isIdle}
      order by c.next_probe_at limit $1 for update skip locked`,
    [limit],
  );
}

export async function noteProbe(tx: Sql, id: string, delayMs: number): Promise<void> {
  await tx.query(
    `update causes set probes = probes + 1, next_probe_at = clock_timestamp() + $2 * interval '1 ms' where id = $1`,
    [id, delayMs],
  );
}

/** Forgets causes that hold nothing up and have not failed for two hours: probes are at most an hour apart. */
export async function forgetIdleCauses(sql: Sql): Promise<void> {
  await sql.query(
    `delete from causes c where c.failed_at < clock_timestamp() - interval '2 hours' and ${holdsNothing}`,
  );
}
