import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { command, queryRows } from '../database/statement.ts';
import { isTime } from '../database/times.ts';

/** Work besides runs that reads what others wrote. The id is that of the export or of the step. */
export type GuardedKind =
  | 'abort_uploads'
  | 'compare_places'
  | 'look_back'
  | 'remove_files'
  | 'sample'
  | 'statement'
  | 'verify';

/** All work of a kind for one owner. */
export interface GuardedWork {
  readonly kind: GuardedKind;
  readonly id: string;
}

/** Deaths after which work is set aside. */
export const maxDeaths = 3;

/** From this many on, work is done while the process does no other such work. */
export const maxSharedDeaths = maxDeaths - 1;

/** `alone`: it must be begun again as such. */
type WorkBegin = 'begun' | 'alone' | 'busy' | 'set aside';

const died = 'g.holder is not null and g.holder <> $3';

/** Deaths at work that has ended well since, some hours after the last one, had another cause. */
const deathsNow = `(case when g.holder is null and g.died_at < now() - interval '6 hours' then 0 else g.deaths end + (${died})::int)`;

/** If another process noted it and is over its time, that one died. @param leaseMs after which it is in progress no more */
export async function beginWork(
  sql: Sql,
  { kind, id }: GuardedWork,
  holder: string,
  leaseMs: number,
  isAlone: boolean,
): Promise<WorkBegin> {
  const [found] = await sql.query<{ isBegun: boolean; isSetAside: boolean }>(
    `insert into guarded_work as g (kind, id, holder, expires_at) values ($1, $2, $3, now() + $4 * interval '1 ms')
     on conflict (kind, id) do update
        set deaths = ${deathsNow}, died_at = case when ${died} then now() else g.died_at end,
            holder = case when ${deathsNow} < $5 then $3::uuid end, expires_at = excluded.expires_at,
            set_aside_at = case when ${deathsNow} >= ${maxDeaths} then now() end
      where g.set_aside_at is null and (g.holder is null or g.holder = $3 or ${isTime('g.expires_at')})
     returning holder is not null as "isBegun", set_aside_at is not null as "isSetAside"`,
    [kind, id, holder, leaseMs, isAlone ? maxDeaths : maxSharedDeaths],
  );
  // Another process is at it, or it was set aside before.
  if (!found) return 'busy';
  if (found.isSetAside) return 'set aside';
  return found.isBegun ? 'begun' : 'alone';
}

const own = 'kind = $1 and id = $2 and holder = $3';

/** Notes that the process of the holder survived. */
export const endWork = command(
  `with kept as (update guarded_work set holder = null where ${own} and deaths > 0)
     delete from guarded_work where ${own} and deaths = 0`,
  ({ kind, id }: GuardedWork, holder: string) => [kind, id, holder],
);

/** The process ends as it was asked to: what it leaves is no death. */
export const leaveWork = command<[holder: string]>(
  `update guarded_work set holder = null where holder = $1`,
);

export const isSetAside = (kind: GuardedKind, id: string): string =>
  `exists (select from guarded_work g where g.kind = '${kind}' and g.id = ${id}::text and g.set_aside_at is not null)`;

export interface WorkSetAside extends GuardedWork {
  readonly deaths: number;
  readonly setAsideAt: Timestamp;
}

const columns = `kind, id, deaths, set_aside_at as "setAsideAt"`;

export const listWorkSetAside = queryRows<WorkSetAside, [limit: number]>(
  `select ${columns} from guarded_work where set_aside_at is not null order by set_aside_at, kind, id limit $1`,
);

/** Lets the sweep do it again. @param id null: all @returns what was set aside */
export const retryWork = queryRows<WorkSetAside, [id: string | null]>(
  `delete from guarded_work where set_aside_at is not null and ($1::text is null or id = $1) returning ${columns}`,
);
