import type { LookBackHours } from '../../../foundation/domain/policy.ts';
import type { Recipe } from '../../../foundation/domain/recipe.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { command, queryAny, queryRows } from '../database/statement.ts';
import { isSetAside } from '../files/guarded-work.ts';
import { isAwake, mayRun } from '../healing/healing.ts';
import type { ReceiptProof, RunResult } from '../../../foundation/domain/receipt.ts';
import { live } from '../runs/run-moves.ts';
import { type Project, tenantKeyOf } from '../tenants/tenants.ts';
import {
  boundsOf,
  intervalOf,
  isSameInterval,
  isTime,
  longerThanAnyWait,
} from '../database/times.ts';

/** A completed interval that may have got rows since. */
export interface LookBack
  extends Pick<RunResult, 'snapshot' | 'keyDigest' | 'keyCount' | 'settled' | 'pending'>,
    Pick<Project, 'tenantKey' | 'organizationId'> {
  readonly exportId: string;
  readonly teamId: number;
  readonly interval: DataInterval;
  readonly deliveredRows: number;
  /** Looks, and runs that were to add late rows, that failed in a row. */
  readonly tries: number;
  /** Looks of the export that failed in a row. */
  readonly exportFailures: number;
  /** True to compare it with its source even if nothing it waited for has ended. */
  readonly isDue: boolean;
  /** The hours after its end in which it is regularly compared with its source. */
  readonly lookBackHours: number;
  readonly model: string;
  readonly recipe: Recipe;
  readonly destinationType: string;
  /** True if the export has another destination now than the files. */
  readonly hasMoved: boolean;
}

/** Says whether late rows of the receipt `c` wait for a person, who has not accepted the interval since. */
export const lateRowsWait = `c.late_rows_wait is not null and not exists (
  select from accepted_intervals a where ${isSameInterval('a', 'c')} and a.accepted_at >= c.pending_checked_at)`;

/** SQL: whether a time that was noted is so long ago, or was noted by a clock that was wrong. */
const isAgo = (at: string, long: string): string =>
  `(${at} < now() - ${long} or ${at} > now() + ${longerThanAnyWait})`;

const isRested = isAgo('c.pending_checked_at', `interval '10 s'`);

/** SQL: the hours of the look-back of an export `e`: its own, those of its model, or those of the installation. No mode but append has late rows. @param at the parameter of `hoursValue` */
export const hoursOf = (at: string): string =>
  `case when e.mode = 'append' then coalesce(e.look_back_hours, (${at}::jsonb -> 'modelLookbackHours' ->> e.model)::int, (${at}::jsonb ->> 'lateLookbackHours')::int) else 0 end`;

/** The parameter of `hoursOf`. */
export const hoursValue = ({ lateLookbackHours, modelLookbackHours }: LookBackHours): string =>
  JSON.stringify({ lateLookbackHours, modelLookbackHours });

const hours = hoursOf('$1');

/** True to compare it regularly. What is over by the clock is over after one more look. */
const isDue = `${hours} > 0 and (c.data_interval_end > now() - ${hours} * interval '1 hour' or c.look_owed)
  and ${isAgo('c.looked_back_at', `interval '5 minutes'`)}`;

const perOrganization = 20;

export interface WantedLookBacks {
  readonly limit: number;
  readonly without: readonly string[];
  readonly slow: readonly string[];
  /** Only those of `slow` exports; else all but those. */
  readonly isLong: boolean;
}

/**
 * Takes completed intervals of up to `limit` organizations, those first whose last check is the oldest:
 *
 * - unsettled ones: every ten seconds at first, then less often the longer they wait, at least every hour.
 *   If no transaction can settle it (a standby without its primary), every hour.
 * - those of the last hours of the look-back: every five minutes, and once when that time is over.
 *
 * Skips an interval that another worker has taken, that has a live run, that waits after a failure, or whose export is paused or of a
 * disabled organization. What is due when that ends is looked at then, however long it took.
 */
export const takeLookBacks = queryRows<LookBack, [usual: LookBackHours, wanted: WantedLookBacks]>(
  `with in_time as materialized (
       -- One range of an index for each export.
       select r.place from (
         select id, mode, model, look_back_hours from batch_exports where deleted_at is null and look_back_hours > 0
         union all
         select id, mode, model, null from batch_exports where deleted_at is null and look_back_hours is null
            and ($1::jsonb ->> 'lateLookbackHours' <> '0' or $1::jsonb -> 'modelLookbackHours' <> '{}')
         ) e, lateral (
         select ctid as place from receipts
          where export_id = e.id and data_interval_end > now() - ${hours} * interval '1 hour' offset 0) r
        where ${hours} > 0
     ), candidates as materialized (
       select ctid as place from receipts where not settled
       union
       select place from in_time
       union
       select ctid from receipts where look_owed
     ), due as (
       select c.ctid as place, p.organization_id, c.pending_checked_at,
              row_number() over (partition by p.organization_id order by c.pending_checked_at) as nth
         from receipts c
         join batch_exports e on e.id = c.export_id and ${isAwake}
         join projects p on p.id = e.team_id and p.organization_id <> all ($3) and p.disabled_at is null
         join organizations o on o.id = p.organization_id and o.disabled_at is null
        where c.ctid = any (array(select place from candidates))
          and (c.export_id = any ($4)) = $5
          and not ${isSetAside('look_back', 'c.export_id')}
          -- What waits for a person is looked at again after the export was changed, unless a person accepted it as it is.
          -- What had another fault is tried again each hour: the cause may be gone.
          and (c.late_rows_wait is null or ${lateRowsWait} and (e.last_updated_at > c.pending_checked_at or c.pending_checked_at > now() + ${longerThanAnyWait}
               or not is_decided_by_people(c.late_rows_code) and c.pending_checked_at < now() - interval '1 hour'))
          -- What failed is tried again later, also if it is the export that fails.
          and (c.look_after is null or ${isTime('c.look_after')}) and (e.look_after is null or ${isTime('e.look_after')})
          and (c.look_tries = 0 or e.heal_after is null or ${isTime('e.heal_after')})
          and ${isRested}
          and (not c.settled and ${isAgo(
            'c.pending_checked_at',
            `case when c.pending_transactions && '{standby}' then interval '1 hour'
                      else least((now() - c.committed_at) / 20, interval '1 hour') end`,
          )}
               or ${isDue})
          and not exists (
            select from runs later
             where ${isSameInterval('later', 'c')} and later.status in ${live})
     ), chosen as (
       select organization_id from due where nth = 1 order by pending_checked_at limit $2
     ), taken as (
       select c.ctid as place, ${isDue} as due
         from receipts c join batch_exports e on e.id = c.export_id
        where c.ctid = any (array(select place from due where nth <= ${perOrganization} and organization_id in (select organization_id from chosen)))
          -- Again, for a row that another worker has taken since.
          and ${isRested}
        for update of c skip locked
     ), owed as (
       -- From now on, the clock alone does not end its looks.
       update receipts c set look_owed = true where c.ctid = any (array(
         select ctid from receipts where ctid = any (array(select place from in_time)) and not look_owed
            and ctid <> all (array(select place from taken)) for update skip locked))
     )
     update receipts c set pending_checked_at = now(), look_owed = c.look_owed or t.due from taken t, batch_exports e, projects p
      where c.ctid = t.place and e.id = c.export_id and p.id = e.team_id
     returning c.export_id as "exportId", e.team_id as "teamId", ${tenantKeyOf('p')}, p.organization_id as "organizationId",
       ${intervalOf('c')} as interval,
       c.snapshot, c.key_digest as "keyDigest", c.key_count as "keyCount",
       (c.rows + (select coalesce(sum((f ->> 'rows')::bigint), 0) from jsonb_array_elements(c.rejected_files) f))::bigint as "deliveredRows", c.settled, c.pending_transactions as pending, c.look_tries as tries, e.look_failures as "exportFailures",
       t.due as "isDue", ${hours} as "lookBackHours", e.model, c.recipe, e.destination_type as "destinationType",
       c.destination_version <> e.destination_version as "hasMoved"`,
  (usual, { limit, without, slow, isLong }) => [hoursValue(usual), limit, without, slow, isLong],
);

/** Counts the pause until the next check from now on: of those of an organization, what was not begun comes first. */
export const stampLookBack = command(
  `update receipts set pending_checked_at = now()
      where export_id = $1 and data_interval_start = $2 and data_interval_end = $3`,
  (item: LookBack) => [item.exportId, ...boundsOf(item.interval)],
);

/** Unless another run or check has looked at the interval meanwhile. @returns whether it was recorded */
export async function recordLookBack(
  tx: Sql,
  item: LookBack,
  found: {
    readonly settled: boolean;
    readonly pending: readonly string[];
    /** The rows of the source now, without late rows; null if it was not compared. */
    readonly seen: Pick<ReceiptProof, 'snapshot' | 'digest' | 'count'> | null;
  },
): Promise<boolean> {
  const at = [item.exportId, ...boundsOf(item.interval)];
  const rows = await tx.query(
    `update receipts c set settled = $5, pending_transactions = $6, pending_checked_at = now(),
            looked_back_at = case when $7 then now() else c.looked_back_at end, late_rows_wait = null, late_rows_code = null,
            look_tries = case when $7 then 0 else c.look_tries end, look_after = case when $7 then null else c.look_after end,
            look_owed = case when $7 then c.data_interval_end > now() - $11::int * interval '1 hour' else c.look_owed end,
            snapshot = coalesce($8, c.snapshot), key_digest = case when $7 then $9 else c.key_digest end,
            key_count = coalesce($10, c.key_count)
      where c.export_id = $1 and c.data_interval_start = $2 and c.data_interval_end = $3 and c.snapshot = $4
      returning c.export_id`,
    [
      ...at,
      item.snapshot,
      found.settled,
      found.pending,
      found.seen !== null,
      found.seen?.snapshot ?? null,
      found.seen?.digest ?? null,
      found.seen?.count ?? null,
      item.lookBackHours,
    ],
  );
  if (rows.length === 0) return false;
  if (found.settled && !item.settled) {
    await tx.query(
      `update runs set settled = true, pending_transactions = '{}'
        where export_id = $1 and data_interval_start = $2 and data_interval_end = $3
          and status = 'Completed' and not settled`,
      at,
    );
  }
  return true;
}

/** Says whether a run may be made of what a look has found: the export may have been paused, or its organization disabled, meanwhile. */
export const mayAddLateRows = queryAny<[exportId: string]>(
  `select from batch_exports e where e.id = $1 and ${mayRun}`,
);

/** A look of the export has answered. */
export async function noteLook(tx: Sql, { exportId, exportFailures }: LookBack): Promise<void> {
  if (exportFailures === 0) return;
  await tx.query(`update batch_exports set look_failures = 0, look_after = null where id = $1`, [
    exportId,
  ]);
}

/** After some in a row the export makes no other for a while: not only this interval fails. @returns whether it waits now */
export async function noteFailedLook(sql: Sql, item: LookBack): Promise<boolean> {
  const [row] = await sql.query<{ waits: boolean }>(
    `with failed as (
       update receipts set look_tries = look_tries + 1, look_after = clock_timestamp() + healing_delay(look_tries + 1)
        where export_id = $1 and data_interval_start = $2 and data_interval_end = $3
     )
     update batch_exports set look_failures = look_failures + 1,
            look_after = case when look_failures >= 5 then clock_timestamp() + healing_delay(look_failures) end
      where id = $1 returning look_after is not null as waits`,
    [item.exportId, ...boundsOf(item.interval)],
  );
  return row?.waits ?? true;
}

/** @returns whether that is news of the interval, and whether no interval of the export had this before */
export async function noteLateRowsWait(
  tx: Sql,
  exportId: string,
  interval: DataInterval,
  { code, text }: { readonly code: string; readonly text: string },
): Promise<{ readonly isNew: boolean; readonly isFirst: boolean }> {
  const rows = await tx.query<{ isNew: boolean; isFirst: boolean }>(
    `with before as (
       select late_rows_wait, not exists (select from receipts where export_id = $1 and late_rows_wait = $4) as is_first
         from receipts where export_id = $1 and data_interval_start = $2 and data_interval_end = $3 for update
     )
     update receipts c set late_rows_wait = $4, late_rows_code = $5, pending_checked_at = now() from before
      where export_id = $1 and data_interval_start = $2 and data_interval_end = $3
      returning before.late_rows_wait is distinct from $4 as "isNew", before.is_first as "isFirst"`,
    [exportId, ...boundsOf(interval), text, code],
  );
  return rows[0] ?? { isNew: false, isFirst: false };
}
