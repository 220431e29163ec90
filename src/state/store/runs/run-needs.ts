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
  /** The wait for its source that it is in; null: none. */
  readonly wait: {
    /** The names of what it waits for; null if its source has named nothing yet. */
    readonly pending: readonly string[] | null;
    readonly waitedMs: number;
  } | null;
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
            r.commit_intent is not null as "beganCommit", case when o.waits_for is not null then jsonb_build_object('pending', o.waits_for -> 'pending',
              'waitedMs', greatest(extract(epoch from now() - o.waits_since) * 1000, 0)) end as wait,
            e.destination_type as type, e.destination_config as config, e.transformations, coalesce(o.small and ${isSmall('r')}, false) as small,
            (select count(*)::int from jsonb_array_elements(${pinnedChainOf('r')}) step where step ? 'source') as "ownSteps",
            ${heldUpBy('r')} is not null as "isHeldUp",
            r.crashes + (r.lease_holder is not null)::int as crashes
       from (select * from unnest($1::uuid[]) as a (id) ${anyNumber}) asked join runs r on r.id = asked.id join batch_exports e on e.id = r.export_id join projects p on p.id = r.team_id
            -- Limited, so that it is looked up: a plan that was made while the outbox was empty would read all of it.
            left join lateral (select * from outbox where run_id = r.id limit 1) o on true
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
