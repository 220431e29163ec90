import type { StoredDestination } from '../../../foundation/domain/batch-export.ts';
import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import { parseTime } from '../../../foundation/domain/parse-time.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { command, queryAny, queryRows, querySet, queryValues } from '../database/statement.ts';
import { queryWork } from './stored-destination.ts';
import { prepared } from '../database/prepared.ts';
import { intervalOf, isSameInterval } from '../database/times.ts';
import { isRunning, type Lease, live, running } from '../runs/run-moves.ts';
import { isSetAside } from './guarded-work.ts';

/** After these failed looks, over about two days, the sweep leaves a place alone. */
export const maxLooks = 20;

/** Between two looks at a place where uploads are begun. */
const pause = `interval '1 hour'`;

/** Seconds until a look that failed is repeated: 5, 10, 20 … up to six hours. */
const backoff = (tries: string) =>
  `least(21600, 5 * power(2, least(${tries}, 20))) * interval '1 s'`;

/** Extends the lease too. Must be durable before the store is asked for an upload. @returns false if the lease is lost */
export const noteUploads = queryAny(
  prepared(`with held as (
       update runs set lease_expires_at = now() + $4 * interval '1 ms'
        where id = $1 and fence = $2 and ${isRunning('runs')} returning export_id
     ), noted as (
       insert into upload_places as p (export_id, destination_version) select export_id, $3 from held
       on conflict (export_id, destination_version) do update set notes = p.notes + 1
     )
     select from held`),
  (lease: Lease & { readonly destinationVersion: number }, leaseMs: number) => [
    lease.runId,
    lease.fence,
    lease.destinationVersion,
    leaseMs,
  ],
);

const due = `upload_places p join batch_exports e on e.id = p.export_id
  where p.look_at <= now() and not ${isSetAside('abort_uploads', 'p.export_id')}`;

/** Teams with places that the sweep should look at now, in random order. */
export const findTeamsToLookAt = queryValues<number, [limit: number]>(
  `select e.team_id as "teamId" from ${due} group by 1 order by random() limit $1`,
);

/** A place that one sweep looks at: one version of the destination of an export. */
export interface UploadPlace {
  readonly teamId: number;
  readonly exportId: string;
  readonly externalId: string;
  readonly model: string;
  readonly destination: StoredDestination;
  readonly destinationVersion: number;
  readonly notes: number;
  /** True if a run of the export is live: it may begin an upload at any time. */
  readonly isBusy: boolean;
  /** Looks since the last one that did not fail, with this one. */
  readonly tries: number;
}

/** Takes one place of a team. No other sweep takes it before `lookMs` are over, also if this worker dies. */
export const takeUploadPlace = queryWork<
  UploadPlace,
  [teamId: number, lookMs: number]
>(`with chosen as (
       select p.export_id, p.destination_version from ${due} and e.team_id = $1
        order by p.look_at limit 1 for update of p skip locked
     ), taken as (
       update upload_places p set tries = p.tries + 1, look_at = now() + $2 * interval '1 ms' + ${backoff('p.tries')}
         from chosen where p.export_id = chosen.export_id and p.destination_version = chosen.destination_version returning p.*
     )
     select e.team_id as "teamId", e.id as "exportId", o.external_id as "externalId", e.model, e.destination_type as type,
            case when f.version is null then e.destination_config else f.destination_config end as config,
            case when f.version is null then e.destination_secrets else f.destination_secrets end as secrets,
            t.destination_version as "destinationVersion", t.notes, t.tries,
            exists (select from runs r where r.export_id = e.id and r.status in ${live}) as "isBusy"
       from taken t join batch_exports e on e.id = t.export_id join projects o on o.id = e.team_id
       left join former_destinations f on f.export_id = e.id and f.version = t.destination_version`);

type Looked = Pick<UploadPlace, 'exportId' | 'destinationVersion' | 'notes' | 'isBusy' | 'tries'>;

const ofPlace = 'export_id = $1 and destination_version = $2';

/** `clean`: the place is forgotten, unless an upload may have begun since the list. `not tried`: it is due again. */
export async function endLook(
  sql: Sql,
  { exportId, destinationVersion, notes, isBusy, tries }: Looked,
  end: 'clean' | 'some left' | 'failed' | 'not tried',
): Promise<void> {
  const ids = [exportId, destinationVersion];
  if (end === 'clean' && !isBusy) {
    const forgotten = await sql.query(
      `delete from upload_places where ${ofPlace} and notes = $3 returning export_id`,
      [...ids, notes],
    );
    if (forgotten.length > 0) return;
  }
  const after = { failed: backoff('$3::int - 1'), 'not tried': `interval '5 s'` };
  await sql.query(
    `update upload_places set tries = $3::int, look_at = now() + ${end === 'failed' || end === 'not tried' ? after[end] : pause}
      where ${ofPlace}`,
    [...ids, end === 'failed' ? tries : 0],
  );
}

export const forgetUploadPlace = command(
  `delete from upload_places where ${ofPlace}`,
  ({ exportId, destinationVersion }: Pick<UploadPlace, 'exportId' | 'destinationVersion'>) => [
    exportId,
    destinationVersion,
  ],
);

export interface ListedUpload {
  readonly key: string;
  readonly start: string;
  readonly generation: number;
}

/** An upload that an attempt of the export may have begun. */
export interface JudgedUpload {
  readonly key: string;
  readonly interval: DataInterval;
  /** True if no attempt of the export can complete it, or it may be aborted all the same. */
  readonly isAbandoned: boolean;
  /** Other exports of the team with an attempt that may have it, if their keys are the same. */
  readonly others: readonly {
    readonly exportId: string;
    readonly model: string;
    readonly config: DestinationConfig;
  }[];
}

/** SQL: the files of an interval are replaced at their keys, so a key does not show the attempt. */
const isInPlace = (run: string) =>
  `exists (select from receipts c where ${isSameInterval('c', run)} and c.manifest_key is null)`;

/** SQL: the run `r` is of the interval `i`, and its attempt is still going and has the upload `k`, or may have. */
const holds = `r.data_interval_start = i.data_interval_start and r.data_interval_end = i.data_interval_end
   and r.status = ${running} and r.lease_expires_at is not null and (r.file_generation <= k.generation or ${isInPlace('r')})`;

/** SQL: a lost worker may be completing it, and on some stores an abort then destroys the object. After a day we abort. */
const mayBeCommitted = `exists (select from leftover_files l
   where l.export_id = e.id and l.key = k.key and l.uncommitted and l.noted_at > now() - interval '1 day'
     and not exists (select from receipts c where ${isSameInterval('c', 'l')} and c.destination_version = l.destination_version
                        and c.manifest_key = l.manifest_key and c.generation > l.generation))`;

/** SQL: like `mayBeCommitted`, of a file that is replaced at its key. No request is so late. */
const mayBeReplaced = `exists (select from runs r where r.export_id = e.id and r.data_interval_start = i.data_interval_start
   and r.data_interval_end = i.data_interval_end and ${isInPlace('r')} and r.finished_at > now() - ${pause})`;

/** By their keys. Ask after the store was asked: later attempts have higher generations. @returns those of a generation that was given */
export const judgeUploads = queryRows<
  JudgedUpload,
  [exportId: string, uploads: readonly ListedUpload[]]
>(
  `select k.key, ${intervalOf('i')} as interval,
            not exists (select from runs r where r.export_id = e.id and ${holds})
              and (e.deleted_at is not null or not (${mayBeCommitted} or ${mayBeReplaced})) as "isAbandoned",
            coalesce((select jsonb_agg(jsonb_build_object('exportId', o.id, 'model', o.model, 'config', o.destination_config))
                        from runs r join batch_exports o on o.id = r.export_id
                       where r.team_id = e.team_id and r.export_id <> e.id and ${holds}), '[]') as others
       from jsonb_to_recordset($2::jsonb) as k (key text, start timestamptz, generation int)
       join batch_exports e on e.id = $1
       join lateral (
         select r.data_interval_start, r.data_interval_end, max(r.file_generation) as given from runs r
          where r.export_id = $1 and r.data_interval_start = k.start group by 1, 2) i on k.generation <= i.given`,
  (exportId, uploads) => [exportId, JSON.stringify(uploads.filter(isStorable))],
);

/** A store may list any key: PostgreSQL takes no NUL and no lone surrogate. */
const isStorable = ({ key, start, generation }: ListedUpload): boolean =>
  !/[\0\p{Cs}]/u.test(key) && parseTime(start) !== null && generation < 2 ** 31;

export const findEndedRuns = querySet<string, [runIds: readonly string[]]>(
  `select id from runs where id = any ($1::uuid[]) and finished_at is not null`,
);
