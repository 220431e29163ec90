import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { queryRows } from '../database/statement.ts';
import { mayRun } from './healing.ts';

export interface HeldUp {
  readonly organizationId: string;
  readonly teamId: number;
  readonly exportId: string;
  readonly name: string;
  readonly intervals: number;
  readonly code: string;
  readonly since: Timestamp;
}

const columns = `p.organization_id as "organizationId", e.team_id as "teamId", e.id as "exportId", e.name`;

/** SQL of the intervals that heal of the export `e`. */
const healing = `(select count(*)::int from holes h where h.export_id = e.id and h.heals_since is not null)`;

/** That have failed for a minute, have intervals that heal, and are not announced. `isKnown`: the cause was, for another of the organization. */
export const listNewlyHeldUp = queryRows<HeldUp & { readonly isKnown: boolean }, [limit: number]>(`
     select ${columns}, ${healing} as intervals, e.failing_code as code, e.failing_since as since,
            exists (select from batch_exports o join projects q on q.id = o.team_id
                     where o.announced_code = e.failing_code and q.organization_id = p.organization_id) as "isKnown"
       from batch_exports e join projects p on p.id = e.team_id
      where e.failing_since < clock_timestamp() - interval '1 minute' and e.announced_code is null and e.failing_code is not null
        and ${mayRun} and exists (select from holes h where h.export_id = e.id and h.heals_since is not null)
      order by e.created_at, e.id limit $1 for no key update of e skip locked`);

export async function noteAnnounced(tx: Sql, heldUp: readonly HeldUp[]): Promise<void> {
  if (heldUp.length === 0) return;
  await tx.query(
    `update batch_exports e set announced_code = x.code, announced_at = clock_timestamp()
       from unnest($1::uuid[], $2::text[]) as x (id, code) where e.id = x.id`,
    [heldUp.map(({ exportId }) => exportId), heldUp.map(({ code }) => code)],
  );
}

/** None of their organization fails with it any more. `intervals`: what was healed since, and what still heals. */
export const takeOver = queryRows<HeldUp>(`with announced as (
       select e.id, p.organization_id, e.announced_code as code, e.announced_at, ${mayRun} and e.failing_since is not null
                and exists (select from holes h where h.export_id = e.id and h.heals_since is not null) as lasts
         from batch_exports e join projects p on p.id = e.team_id where e.announced_code is not null
     ), over as materialized (
       select a.id, a.code, a.announced_at from announced a
        where not exists (select from announced b where b.organization_id = a.organization_id and b.code = a.code and b.lasts)
     ), locked as materialized (
       select e.id from batch_exports e where e.id in (select id from over) and e.announced_code is not null
        order by e.id for no key update skip locked
     ), taken as (
       update batch_exports e set announced_code = null, announced_at = null from locked where e.id = locked.id returning e.*
     )
     select ${columns}, o.code, o.announced_at as since, ${healing} + (select count(*)::int from runs r
              where r.export_id = e.id and r.heals and r.status = 'Completed' and r.finished_at > o.announced_at) as intervals
       from taken e join over o on o.id = e.id join projects p on p.id = e.team_id order by e.created_at, e.id`);
