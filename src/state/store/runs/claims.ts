import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import type { Element } from '../../../foundation/domain/element.ts';
import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import type { AttemptFacts, CommitIntent } from '../../../foundation/domain/receipt.ts';
import type { PinnedStep } from '../../../foundation/domain/recipe.ts';
import {
  readTraits,
  type StoreTraits,
  traitsValidDays,
} from '../../../foundation/domain/store-traits.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import { pinnedChainOf } from '../transformations/chains.ts';
import type { Sql, Transactor } from '../database/database.ts';
import { command } from '../database/statement.ts';
import { type EraFacts, eraFacts, resolveEra } from '../database/eras.ts';
import { hasNotEnded, type Lease, move, running } from './run-moves.ts';
import { anyNumber, isAny, plannedOnce, prepared } from '../database/prepared.ts';
import { type Receipt, receiptColumns } from '../intervals/receipts.ts';
import { currentTraits } from '../files/store-traits.ts';
import { tenantKeyOf } from '../tenants/tenants.ts';
import { intervalOf, isSameInterval, isTime } from '../database/times.ts';

/** A claimed run with everything needed to execute it. Its secrets are still encrypted. */
export interface ClaimedRun extends Lease, AttemptFacts {
  readonly teamId: number;
  /** The value of a tenant column for its project. */
  readonly tenantKey: string;
  readonly backfillId: string | null;
  readonly erases: Buffer | null;
  /** 0 for the first run of the interval. */
  readonly generation: number;
  /** Attempts whose lease expired since the run last made progress: their worker died or fell silent. */
  readonly crashes: number;
  readonly faults: number;
  /** The generation under which this attempt writes its files. */
  readonly fileGeneration: number;
  /** The commit that an earlier attempt began; null if no attempt got that far. */
  readonly commitIntent: CommitIntent | null;
  readonly heals: boolean;
  /** The error with which its export fails again and again; null: it may make an attempt. Otherwise its interval heals with the others. */
  readonly heldUpBy: string | null;
  readonly exportFails: boolean;
  readonly destination: BatchExport['destination'];
  /** The version of the export's destination when the run was claimed. */
  readonly destinationVersion: number;
  readonly model: string;
  /** Of mode changes: the newest recorded element of the export; else null. */
  readonly lastElement: {
    readonly element: Element;
    readonly era: string;
    readonly destinationVersion: number;
    readonly interval: DataInterval;
  } | null;
  /** Of mode changes: elements whose commits were begun after that one and are not recorded. */
  readonly begunElements: readonly Element[];
  readonly newBase: number;
  /** Of mode changes without an element: the era in which the export was made, and its age. */
  readonly made: { readonly era: string; readonly minutes: number } | null;
  readonly dslQuery: string | null;
  /** The transformation chain that its first claim decided; empty if no step changes the rows. */
  readonly chain: readonly PinnedStep[];
  readonly externalId: string;
  /** The time between the last change of the export and the claim. */
  readonly changedForMs: number;
  /** The result of an earlier probe of its destination; null if it must be probed. */
  readonly storeTraits: StoreTraits | null;
  readonly receipt: Receipt | null;
}

/** Asks for the lease of a run. */
export interface ClaimRequest {
  readonly runId: string;
  /** Names this claim: if its answer was lost, the claim may be repeated. */
  readonly holder: string;
}

/** A table `asked`: id, holder. */
const askedRuns = `asked as materialized (
  select * from unnest($1::uuid[], $2::text[]) as a (id, holder) ${anyNumber})`;

/** A table `locked` of runs and rows of the outbox that no other transaction holds. `is_fresh`: unchanged since the statement began. */
const locked = `locked as materialized (
  select asked.holder, run.*, entry.* from asked, lateral (
      select r.id, r.xmin = (select seen.xmin from runs seen where seen.id = r.id) as is_fresh
        from runs r where r.id = asked.id for no key update skip locked) run
    left join lateral (
      select o.run_id as entry_id, o.available_at, o.ready, o.small as was_small
        from outbox o where o.run_id = run.id for update skip locked) entry on true)`;

/** SQL: whether a run waits for an attempt that is due (also if the clock was set back), or its lease is over, or is this claim's. */
const mayBeClaimed = `locked.is_fresh and ${hasNotEnded('runs')}
  and (status <> ${running} or lease_expires_at is null or lease_expires_at < now() or lease_holder = locked.holder)
  and case when locked.entry_id is null then not ${isAny('from outbox where run_id = runs.id')} else locked.ready or ${isTime('locked.available_at')} end`;

/** Each attempt has a number above all that the interval ever had. */
const nextGeneration = `1 + greatest(0,
  (select max(o.file_generation) from runs o where ${isSameInterval('o', 'runs')}),
  (select c.generation from receipts c where ${isSameInterval('c', 'runs')}),
  (select max(l.generation) from leftover_files l where ${isSameInterval('l', 'runs')}))`;

/** Rows that are added to files, or taken from them, go through the chain of these files. */
const chainOf = `case when purpose = 'whole' then ${pinnedChainOf('runs')} else coalesce(runs.chain,
  (select c.recipe->'chain' from receipts c where ${isSameInterval('c', 'runs')}), '[]') end`;

/** A hand-back clears the holder, and so does every statement that takes the lease away: another holder has died. */
const claimed = `claimed as (
  update runs set ${move('claimed')}, attempt = attempt + 1, fence = fence + 1,
         crashes = crashes + coalesce(lease_holder <> locked.holder, false)::int,
         lease_holder = locked.holder, lease_expires_at = now() + $3 * interval '1 ms', committing_at = null, cursor = null, step = null, step_since = null,
         started_at = coalesce(started_at, now()), last_updated_at = now(), chain = ${chainOf}, file_generation = ${nextGeneration},
         small = coalesce(locked.was_small, false)
    from locked
   where runs.id = locked.id and ${mayBeClaimed}
  returning runs.*)`;

/** Their rows of the outbox go. */
const taken = `taken as (delete from outbox where run_id = any (array(select id from claimed)))`;

/** SQL: digests of the manifests whose commits were begun for the interval of `c` and are not recorded. */
const begunManifests = `array(select distinct d.digest from runs r, jsonb_array_elements_text(r.commit_intent->'begunManifests') as d (digest)
    where ${isSameInterval('r', 'c')}
      and r.committing_generation > coalesce((select o.generation from receipts o where ${isSameInterval('o', 'r')}), 0))`;

/** SQL of the error with which `e` fails if `run` makes no attempt. What a person asks for is attempted. */
export const heldUpBy = (
  run: string,
): string => `case when ${run}.purpose = 'whole' and not ${run}.heals
    and ${run}.backfill_id is null and ${run}.generation = 0 and ${run}.commit_intent is null
    and e.failing_since is not null and e.heal_for_hours > 0 and not ${isTime('e.heal_after')}
    and not ${isAny(`from receipts done where ${isSameInterval('done', run)}`)} then e.failing_code end`;

/** The newest recorded element of the export `e`. */
const lastElement = `select c.element, c.era, c.destination_version as "destinationVersion", ${intervalOf('c')} as interval
  from receipts c where c.export_id = e.id and c.element is not null order by c.data_interval_end desc limit 1`;

/** Elements of the export `e` that may have been published since the element `l`. The last intent of a run has the highest number of it. */
const begunElements = `select jsonb_agg(r.commit_intent->'element') from runs r
  where r.export_id = e.id and r.purpose = 'whole' and r.commit_intent->'element' <> 'null'
    and r.data_interval_end >= coalesce(to_timestamp((l.element->'interval'->>'end')::float8 / 1000), '-infinity')
    and (r.commit_intent->'element'->>'number')::int > coalesce((l.element->'element'->>'number')::int, -1)`;

/** The era in which the export `e` was made, and its age. */
const origin = `select jsonb_build_object('era', m.id, 'minutes', ceil(extract(epoch from now() - e.created_at) / 60))
  from eras m where m.began_at <= e.created_at or m.number = 1 order by m.number desc limit 1`;

/** All that an attempt needs of its export and its project. No other commit of the interval can begin under its lease. */
const facts = `select c.id as "runId", c.lease_holder as holder, c.fence, c.export_id as "exportId", c.team_id as "teamId", c.backfill_id as "backfillId",
       c.purpose, c.erases, c.drops_missing as "dropsMissing", c.attempt, c.generation, c.crashes, c.faults, ${intervalOf('c')} as interval,
       c.heals, ${heldUpBy('c')} as "heldUpBy", e.heal_after is not null as "exportFails",
       c.file_generation as "fileGeneration", c.commit_intent as "commitIntent", c.chain,
       e.destination_type as "destinationType", e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
       e.destination_version as "destinationVersion", e.deleted_at is not null as "isDeleted", e.model, e.mode, e.new_base as "newBase", l.element as "lastElement", coalesce(case when e.mode = 'changes' then (${begunElements}) end, '[]') as "begunElements",
       case when e.mode = 'changes' and l.element is null then (${origin}) end as made, e.dsl_query as "dslQuery",
       (extract(epoch from now() - e.last_updated_at) * 1000)::float8 as "changedForMs",
       p.external_id as "externalId", ${tenantKeyOf('p')}, ${currentTraits} as "storeTraits", ${eraFacts},
       (select to_jsonb(found) from (select ${receiptColumns} from receipts where export_id = c.export_id
           and data_interval_start = c.data_interval_start and data_interval_end = c.data_interval_end) found) as receipt,
       ${isAny(`from leftover_files l where ${isSameInterval('l', 'c')} and l.uncommitted`)} as "mayBeOvertaken",
       ${begunManifests} as "begunManifests"
  from claimed c join batch_exports e on e.id = c.export_id join projects p on p.id = c.team_id
  cross join lateral (select case when e.mode = 'changes' then (select to_jsonb(found) from (${lastElement}) found) end as element) l`;

/** Claims runs and reads what their attempts need. Runs that are locked or were changed are left: the statement waits for no lock. */
const claimSql = plannedOnce(`with ${[askedRuns, locked, claimed, taken].join(', ')} ${facts}`);

interface ClaimRow extends Omit<ClaimedRun, 'destination' | 'storeTraits' | 'era'>, EraFacts {
  readonly holder: string;
  readonly destinationType: string;
  readonly destinationConfig: DestinationConfig;
  readonly destinationSecrets: Buffer | null;
  readonly storeTraits: Partial<StoreTraits> | null;
}

/** @returns in the order of the requests; null for a run that is locked or changes now, or cannot be taken */
export async function claimFree(
  sql: Sql,
  requests: readonly ClaimRequest[],
  leaseMs: number,
): Promise<readonly (ClaimedRun | null)[]> {
  const rows = await sql.query<ClaimRow>(claimSql, [
    requests.map(({ runId }) => runId),
    requests.map(({ holder }) => holder),
    leaseMs,
    traitsValidDays,
  ]);
  const byHolder = new Map<string, ClaimedRun>();
  for (const { holder, ...row } of rows) byHolder.set(holder, await toClaimedRun(sql, row));
  return requests.map(({ holder }) => byHolder.get(holder) ?? null);
}

/** Waits for who changes it. One that cannot be taken leaves the outbox: its holder re-enqueues it. @returns null if it is not taken */
export function claimLocked(
  db: Transactor,
  request: ClaimRequest,
  leaseMs: number,
): Promise<ClaimedRun | null> {
  return db.transaction(async (tx) => {
    // Locked first, in its own statement, so that the next one sees what the last holder wrote.
    await lockRuns(tx, [request.runId]);
    await tx.query(lockEntry, [request.runId]);
    const [run = null] = await claimFree(tx, [request], leaseMs);
    if (run === null) await tx.query(removeDue, [request.runId]);
    return run;
  });
}

/** Other transactions wait until this one ends, before they change the runs. */
export const lockRuns = command<[runIds: readonly string[]]>(
  prepared(`select from runs where id = any ($1::uuid[]) order by id for no key update`),
);

const lockEntry = prepared(`select from outbox where run_id = $1 for update`);
const removeDue = prepared(
  `delete from outbox where run_id = $1 and (ready or ${isTime('available_at')})`,
);

async function toClaimedRun(sql: Sql, row: Omit<ClaimRow, 'holder'>): Promise<ClaimedRun> {
  const { destinationType, destinationConfig, destinationSecrets, ...rest } = row;
  const { storeTraits, newestEra, place, ...claimed } = rest;
  return {
    ...claimed,
    destination: { type: destinationType, config: destinationConfig, secrets: destinationSecrets },
    storeTraits: readTraits(storeTraits),
    era: (await resolveEra(sql, { newestEra, place })).id,
  };
}
