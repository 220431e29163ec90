import type { StoredDestination } from '../../../foundation/domain/batch-export.ts';
import type { LeftoverFile } from '../../../foundation/domain/receipt.ts';
import { type DataInterval, type Instant, toTimestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { command, queryRows, querySet, queryValues } from '../database/statement.ts';
import { queryWork } from './stored-destination.ts';
import { isSetAside } from './guarded-work.ts';
import { type Lease, live } from '../runs/run-moves.ts';
import { boundsOf, intervalOf, isSameInterval } from '../database/times.ts';

/** After these failed removals in a row, over about two weeks, the sweep leaves an interval alone. */
const maxRemovalTries = 18;

/** One interval of an export, at one version of its destination. */
export interface IntervalPlace {
  readonly exportId: string;
  readonly interval: DataInterval;
  readonly destinationVersion: number;
}

interface ListedFile extends LeftoverFile {
  /** True if its object was deleted before, and must be once more. */
  readonly wasDeleted: boolean;
}

/** S3 refuses a request half an hour after it was signed, even by a clock that is a quarter of an hour ahead. */
const lateFor = `interval '1 hour'`;

/** SQL of a leftover file `l` whose object was not deleted yet, or so long ago that no late request makes it again. */
const isDeletable = `(l.deleted_at is null or l.deleted_at < now() - ${lateFor})`;

/** SQL: a put or the completion of an upload of `l` may take effect after it is deleted now, or its key may be in use again. */
const mayComeAgain = `(l.deleted_at is null and l.manifest_key is not null and l.key <> l.manifest_key
  and (l.uncommitted or exists (select from runs r join receipts c on ${isSameInterval('c', 'r')}
         where ${isSameInterval('r', 'l')}
           and r.file_generation >= l.generation and r.id <> c.run_id and r.finished_at > now() - ${lateFor})))`;

/** They are never removed. A failed attempt that replaces files in place has noted them. */
const namedKeys = `select f->>'key' from jsonb_array_elements(c.files || c.rejected_files) f`;

const ofInterval = `l.export_id = $1 and l.data_interval_start = $2 and l.data_interval_end = $3 and l.destination_version = $4`;

/** None while a run is live: it removes them at its end. One that was just deleted is left out until it is deleted again. */
export const listLeftoverFiles = queryRows<ListedFile, [place: IntervalPlace]>(
  `select l.key, l.generation, l.manifest_key as "manifestKey", l.etag,
            l.noted_at > now() - interval '1 day' as "isRecent", l.deleted_at is not null as "wasDeleted"
       from leftover_files l
      where ${ofInterval} and ${isDeletable}
        and not exists (select from receipts c where ${isSameInterval('c', 'l')} and c.destination_version = l.destination_version
                           and l.key in (${namedKeys}))
        and not exists (select from runs r where r.export_id = l.export_id and r.status in ${live}
                           and r.data_interval_start = l.data_interval_start and r.data_interval_end = l.data_interval_end)
      order by l.generation, l.key`,
  (place) => [place.exportId, ...boundsOf(place.interval), place.destinationVersion],
);

/** Deletes the records of files that a run noted and that the store refused to put. */
export const withdrawFiles = command(
  `delete from leftover_files l using runs r
      where r.id = $1 and r.fence = $2 and l.export_id = r.export_id and l.destination_version = $3
        and l.data_interval_start = r.data_interval_start and l.data_interval_end = r.data_interval_end
        and l.key = any ($4::text[]) and l.uncommitted`,
  (
    { runId, fence, destinationVersion }: Lease & { readonly destinationVersion: number },
    keys: readonly string[],
  ) => [runId, fence, destinationVersion, keys],
);

/** If an object may come again, its record stays: the sweep deletes it once more, an hour later. */
export async function forgetLeftoverFiles(
  sql: Sql,
  place: IntervalPlace,
  keys: readonly string[],
): Promise<void> {
  if (keys.length === 0) return;
  await sql.query(
    `with kept as (
       update leftover_files l set deleted_at = now(), tried_at = now(), tries = 0, uncommitted = false
        where ${ofInterval} and l.key = any ($5::text[]) and ${mayComeAgain}
     )
     -- Another sweep may have deleted the object a moment ago.
     delete from leftover_files l where ${ofInterval} and l.key = any ($5::text[]) and ${isDeletable} and not ${mayComeAgain}`,
    [place.exportId, ...boundsOf(place.interval), place.destinationVersion, keys],
  );
}

/** At its present place, and not deleted yet. @param since only intervals that start then or later; null: all */
export const listReplacedFiles = queryValues<
  string,
  [exportId: string, since: Instant | null, limit: number]
>(
  `select l.key from leftover_files l
       join receipts c on ${isSameInterval('c', 'l')} and c.destination_version = l.destination_version
       join batch_exports e on e.id = l.export_id and e.destination_version = l.destination_version
      where l.export_id = $1 and l.deleted_at is null and ($2::timestamptz is null or l.data_interval_start >= $2)
        and (l.generation < c.generation or c.manifest_key is null)
        and l.key is distinct from l.manifest_key and l.key not in (${namedKeys})
      order by l.key limit $3`,
  (exportId, since, limit) => [exportId, since === null ? null : toTimestamp(since), limit],
);

/** Those of the keys that are leftovers of the export, at any version of its destination. */
export const findLeftovers = querySet<string, [exportId: string, keys: readonly string[]]>(
  'select key from leftover_files where export_id = $1 and key = any ($2::text[])',
);

/** Manifests of an interval that are no longer those of its receipt, at this version of the destination. */
export const listFormerManifests = queryValues<string, [place: IntervalPlace]>(
  `select l.key from leftover_files l where ${ofInterval} and l.key = l.manifest_key and not l.uncommitted
      order by l.key`,
  ({ exportId, interval, destinationVersion }) => [
    exportId,
    ...boundsOf(interval),
    destinationVersion,
  ],
);

/** An interval with files to remove, and facts of its current receipt. */
export interface RemovalWork extends IntervalPlace {
  readonly teamId: number;
  readonly externalId: string;
  readonly destination: StoredDestination;
  readonly model: string;
  readonly generation: number;
  /** The generation of the attempt that made the receipt. */
  readonly fileGeneration: number;
  readonly manifestKey: string | null;
  readonly era: string;
  readonly runId: string;
}

const removalPause = (tries: string): string =>
  `least(24, power(2, greatest(0, least(${tries}, 9) - 1))) * interval '1 hour'`;

/**
 * Intervals whose leftover files can be removed, because a later generation is current. Files that are
 * replaced in place keep their generation, so the receipt must be of the current era: a restored database
 * may list files that have become current since. A removal that fails is tried again after an hour, then
 * after longer and longer, and at last not at all: then the next run of the interval tries.
 */
const dueRemovals = `leftover_files l
         join receipts c on ${isSameInterval('c', 'l')} and c.destination_version = l.destination_version
         join batch_exports e on e.id = l.export_id and e.destination_version = l.destination_version
        where (l.generation < c.generation
               or c.manifest_key is null and c.era = (select id from eras order by number desc limit 1))
          and l.key not in (${namedKeys}) and l.tries < ${maxRemovalTries} and ${isDeletable}
          and not ${isSetAside('remove_files', 'l.export_id')}
          -- A live run removes them at its end.
          and not exists (select from runs live where live.export_id = l.export_id and live.status in ${live}
                             and live.data_interval_start = l.data_interval_start and live.data_interval_end = l.data_interval_end)
          and (l.tried_at is null or l.tried_at < now() - ${removalPause('l.tries')})`;

/** Teams with files that the sweep should remove now, in random order. */
export const findTeamsWithRemovals = queryValues<number, [limit: number]>(
  `select e.team_id as "teamId" from ${dueRemovals} group by 1 order by random() limit $1`,
);

/** Records how a removal went that did not fail as a whole. @param isLeft whether the sweep should soon go on */
export const endRemoval = command(
  `update leftover_files l set tries = 0, tried_at = case when $5 then null else tried_at end where ${ofInterval}`,
  (place: IntervalPlace, isLeft: boolean) => [
    place.exportId,
    ...boundsOf(place.interval),
    place.destinationVersion,
    isLeft,
  ],
);

/** Takes one interval of a team: no other sweep takes it for an hour. */
export const takeRemoval = queryWork<RemovalWork, [teamId: number]>(`with due as (
       select l.export_id, l.data_interval_start, l.data_interval_end, l.destination_version
         from ${dueRemovals} and e.team_id = $1 limit 1
     ), taken as (
       update leftover_files l set tried_at = now(), tries = l.tries + 1 from due d
        where ${isSameInterval('l', 'd')} and l.destination_version = d.destination_version
     )
     select d.export_id as "exportId", ${intervalOf('d')} as interval,
            d.destination_version as "destinationVersion", e.team_id as "teamId", p.external_id as "externalId",
            e.destination_type as type, e.destination_config as config, e.destination_secrets as secrets, e.model,
            c.generation, r.file_generation as "fileGeneration", c.manifest_key as "manifestKey", c.era, c.run_id as "runId"
       from due d join batch_exports e on e.id = d.export_id join projects p on p.id = e.team_id
       join receipts c on ${isSameInterval('c', 'd')}
       join runs r on r.id = c.run_id`);
