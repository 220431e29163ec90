import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import type { RunPurpose } from '../../../foundation/domain/run.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import { heldUpBy } from './claims.ts';
import { pinnedChainOf } from '../transformations/chains.ts';
import type { Sql } from '../database/database.ts';
import { type EraFacts, eraFacts, resolveEra } from '../database/eras.ts';
import { isSmall } from './outbox.ts';
import { anyNumber, plannedOnce } from '../database/prepared.ts';
import { hasNotEnded } from './run-moves.ts';
import { intervalOf } from '../database/times.ts';

/** What must be known of a run before it is claimed. */
export interface RunNeeds {
  readonly organizationId: string;
  readonly teamId: number;
  readonly exportId: string;
  readonly purpose: RunPurpose;
  readonly model: string;
  readonly interval: DataInterval;
  /** Whether an attempt was about to commit. */
  readonly beganCommit: boolean;
  /** What a wait of the last minute found, as `wakeRuns` stored it; null if there was none. */
  readonly settlement: unknown;
  /** Since the run was first parked; 0 if it was not. */
  readonly parkedForMs: number;
  /** Since its rows were asked for: by a backfill, or by the run itself. Never negative. */
  readonly requestedForMs: number;
  /** Our database's clock, when this was read. */
  readonly databaseMs: number;
  readonly type: string;
  /** Without secrets. */
  readonly config: DestinationConfig;
  readonly transformations: boolean;
  /** Steps of its chain whose plugin is an organization's own. */
  readonly ownSteps: number;
  /** The number that its next claim will count. */
  readonly crashes: number;
  /** Whether it waits for a place for small runs, and is still expected to be small. */
  readonly small: boolean;
  /** Whether it makes no attempt: its export fails, and its interval heals with the others. */
  readonly isHeldUp: boolean;
  /** Whether no work is done in this database until an operator accepts its era. */
  readonly isHeld: boolean;
}

/** What live runs need, in the order of their ids; null for a run that has ended. */
export async function findRunNeeds(
  sql: Sql,
  runIds: readonly string[],
): Promise<readonly (RunNeeds | null)[]> {
  const rows = await sql.query<Omit<RunNeeds, 'isHeld'> & EraFacts & { readonly runId: string }>(
    plannedOnce(`select ${eraFacts}, r.id as "runId", p.organization_id as "organizationId", r.team_id as "teamId", r.export_id as "exportId", r.purpose, e.model, ${intervalOf('r')} as interval,
            r.commit_intent is not null as "beganCommit", case when o.settled_at between now() - interval '1 minute' and now() then o.settlement end as settlement,
            coalesce(greatest(extract(epoch from now() - o.parked_since) * 1000, 0), 0)::float8 as "parkedForMs",
            greatest(extract(epoch from now() - coalesce(b.created_at, r.created_at)) * 1000, 0)::float8 as "requestedForMs", (extract(epoch from now()) * 1000)::float8 as "databaseMs", e.destination_type as type, e.destination_config as config, e.transformations, coalesce(o.small and ${isSmall('r')}, false) as small,
            (select count(*)::int from jsonb_array_elements(${pinnedChainOf('r')}) step where step ? 'source') as "ownSteps",
            ${heldUpBy('r')} is not null as "isHeldUp",
            r.crashes + (r.lease_holder is not null)::int as crashes
       from (select * from unnest($1::uuid[]) as a (id) ${anyNumber}) asked join runs r on r.id = asked.id join batch_exports e on e.id = r.export_id join projects p on p.id = r.team_id
            -- Limited, so that it is looked up: a plan that was made while the outbox was empty would read all of it.
            left join lateral (select * from outbox where run_id = r.id limit 1) o on true left join backfills b on b.id = r.backfill_id
      where ${hasNotEnded('r')}`),
    [runIds],
  );
  const found = new Map<string, RunNeeds>();
  for (const { newestEra, place, runId, ...needs } of rows) {
    const { held: isHeld } = await resolveEra(sql, { newestEra, place });
    found.set(runId, { ...needs, isHeld });
  }
  return runIds.map((runId) => found.get(runId) ?? null);
}
