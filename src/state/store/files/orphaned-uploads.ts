import type { Sql } from '../database/database.ts';
import { isSetAside } from './guarded-work.ts';
import { isAbortable, type UploadPlace } from './uploads.ts';

/** After these failed visits, over about two days, the sweep leaves a place alone. */
export const maxCollectTries = 20;

/** Seconds until a place is visited again: 5, 10, 20 … up to six hours. */
const backoff = `least(21600, 5 * power(2, least(u.collect_tries, 20))) * interval '1 s'`;

/**
 * Uploads, aliased `u`, that were left behind. Of a finished run: by a killed or cancelled worker, which has
 * until the end of its lease to abort them itself. Of a live run: by an earlier attempt, at a destination
 * that the export has left.
 */
const isOrphaned = `${isAbortable} and case when r.finished_at is not null then r.lease_expires_at is null or r.lease_expires_at < now()
       else u.destination_version <> e.destination_version and (r.lease_expires_at is null or u.fence < r.fence) end`;

const isDue = `u.collect_tries < ${maxCollectTries} and (u.collect_after is null or u.collect_after <= now())`;

const orphans = `uploads u join runs r on r.id = u.run_id join batch_exports e on e.id = r.export_id
  where ${isOrphaned} and ${isDue} and not ${isSetAside('abort_uploads', 'r.export_id')}`;

/** Teams with uploads that the sweep should end now, in random order. */
export async function findTeamsWithOrphans(sql: Sql, limit: number): Promise<number[]> {
  const rows = await sql.query<{ teamId: number }>(
    `select r.team_id as "teamId" from ${orphans} group by 1 order by random() limit $1`,
    [limit],
  );
  return rows.map(({ teamId }) => teamId);
}

/** A place that one sweep visits. */
export interface OrphanedPlace extends UploadPlace {
  /** Visits since the last one that did something, including this one. */
  readonly tries: number;
}

/**
 * Takes one place of a team. No sweep of any worker takes it again before `visitMs` are over, also if this
 * worker dies.
 */
export async function takeOrphanedPlace(
  sql: Sql,
  teamId: number,
  visitMs: number,
): Promise<OrphanedPlace | null> {
  const [place] = await sql.query<OrphanedPlace>(
    `with due as (
       select u.run_id, u.destination_version from ${orphans} and r.team_id = $1
        group by 1, 2 order by min(u.collect_after) nulls first limit 1
     )
     update uploads u set collect_tries = u.collect_tries + 1,
            collect_after = now() + $2 * interval '1 ms' + ${backoff}
       from due where u.run_id = due.run_id and u.destination_version = due.destination_version and ${isDue}
     returning u.run_id as "runId", u.destination_version as "destinationVersion", u.collect_tries as tries`,
    [teamId, visitMs],
  );
  return place ?? null;
}

/**
 * Records how a visit went. What is left at the place is visited again: soon, if the visit did something.
 */
export async function endVisit(
  sql: Sql,
  { runId, destinationVersion, tries }: OrphanedPlace,
  didSomething: boolean,
): Promise<void> {
  await sql.query(
    didSomething
      ? `update uploads set collect_tries = 0, collect_after = now() + interval '5 s' where run_id = $1 and destination_version = $2`
      : `update uploads u set collect_after = now() + ${backoff.replaceAll('u.collect_tries', '($3 - 1)')}
          where run_id = $1 and destination_version = $2`,
    didSomething ? [runId, destinationVersion] : [runId, destinationVersion, tries],
  );
}
