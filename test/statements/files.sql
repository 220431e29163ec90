-- files/former-destinations.ts retireDestination
-- takes $1 uuid
with moved as (
       insert into former_destinations (export_id, version, destination_config, destination_secrets)
       select id, destination_version, destination_config, destination_secrets from batch_exports where id = $1
     )
     update batch_exports set destination_version = destination_version + 1,
            store_traits = null, store_traits_version = null, store_traits_at = null where id = $1;

-- files/former-destinations.ts listFormerDestinations
-- takes $1 uuid
-- gives version integer, config jsonb
select version, destination_config as config from former_destinations where export_id = $1;

-- files/former-destinations.ts returnToPlace
-- takes $1 uuid
update runs set fence = fence + 1, lease_holder = null,
            lease_expires_at = case when lease_expires_at is null then null else now() end
      where export_id = $1 and status in ('Starting', 'Running');

-- files/former-destinations.ts returnToPlace
-- takes $1 uuid, $2 integer[]
with moved as (
       delete from upload_places where export_id = $1 and destination_version = any ($2::int[]) returning look_at
     )
     insert into upload_places as p (export_id, destination_version, look_at)
     select $1, (select destination_version from batch_exports where id = $1), min(look_at) from moved having count(*) > 0
     on conflict (export_id, destination_version) do update set notes = p.notes + 1;

-- files/former-destinations.ts returnToPlace
-- takes $1 uuid, $2 integer[]
update receipts set destination_version = (select destination_version from batch_exports where id = $1)
      where export_id = $1 and destination_version = any ($2::int[]);

-- files/former-destinations.ts returnToPlace
-- takes $1 uuid, $2 integer[]
delete from leftover_files l
      where export_id = $1 and destination_version = any ($2::int[])
        and (exists (select from leftover_files o where o.export_id = $1 and o.key = l.key and o.destination_version > l.destination_version
                        and (o.destination_version = any ($2::int[]) or o.destination_version = (select destination_version from batch_exports where id = $1)))
             or exists (select from receipts c where c.export_id = $1 and c.data_interval_start = l.data_interval_start
                           and c.data_interval_end = l.data_interval_end and c.destination_version = (select destination_version from batch_exports where id = $1)
                           and (c.manifest_key = l.key or l.key in (select f->>'key' from jsonb_array_elements(c.files || c.rejected_files) f))));

-- files/former-destinations.ts returnToPlace
-- takes $1 uuid, $2 integer[]
update leftover_files set destination_version = (select destination_version from batch_exports where id = $1)
      where export_id = $1 and destination_version = any ($2::int[]);

-- files/former-destinations.ts returnToPlace
-- takes $1 uuid, $2 integer[]
delete from former_destinations where export_id = $1 and version = any ($2::int[]);

-- files/former-destinations.ts findTeamsWithUncomparedPlaces
-- takes $1 bigint
-- gives teamId integer
select e.team_id as "teamId" from former_destinations f join batch_exports e on e.id = f.export_id
  where e.deleted_at is null and f.compared_with is distinct from e.destination_version and f.version <> e.destination_version
    and (f.compare_after is null or f.compare_after <= now())
    and not exists (select from guarded_work g where g.kind = 'compare_places' and g.id = f.export_id::text and g.set_aside_at is not null) group by 1 order by random() limit $1;

-- files/former-destinations.ts takeUncomparedPlace
-- takes $1 integer
-- gives teamId integer, exportId uuid, externalId uuid, type text, config jsonb, secrets bytea, destinationVersion integer, formerVersion integer, formerConfig jsonb, formerSecrets bytea, isLastTry boolean
with due as (
       select f.export_id, f.version from former_destinations f join batch_exports e on e.id = f.export_id
  where e.deleted_at is null and f.compared_with is distinct from e.destination_version and f.version <> e.destination_version
    and (f.compare_after is null or f.compare_after <= now())
    and not exists (select from guarded_work g where g.kind = 'compare_places' and g.id = f.export_id::text and g.set_aside_at is not null) and e.team_id = $1
        order by f.compare_after nulls first limit 1 for update of f skip locked
     ), taken as (
       update former_destinations f set compare_tries = f.compare_tries + 1,
              compare_after = now() + interval '30 s' + least(21600, 5 * power(2, least(f.compare_tries, 20))) * interval '1 s'
         from due where f.export_id = due.export_id and f.version = due.version returning f.*
     )
     select e.team_id as "teamId", e.id as "exportId", p.external_id as "externalId", e.destination_type as type,
            e.destination_config as config, e.destination_secrets as secrets, e.destination_version as "destinationVersion",
            f.version as "formerVersion", f.destination_config as "formerConfig", f.destination_secrets as "formerSecrets",
            f.compare_tries >= 20 as "isLastTry"
       from taken f join batch_exports e on e.id = f.export_id join projects p on p.id = e.team_id;

-- files/former-destinations.ts recordComparison
-- takes $1 uuid, $2 integer
select from batch_exports where id = $1 and destination_version = $2 and deleted_at is null for no key update;

-- files/former-destinations.ts recordComparison
-- takes $1 uuid, $2 integer, $3 integer
-- gives version integer
update former_destinations set compared_with = $3, compare_tries = 0, compare_after = null
      where export_id = $1 and version = $2 and compared_with is distinct from $3 returning version;

-- files/former-destinations.ts deleteSpentDestinations
delete from former_destinations f where f.replaced_at < now() - interval '1 day'
        and not exists (select 1 from upload_places p where p.export_id = f.export_id and p.destination_version = f.version)
        and not exists (select 1 from runs r
                         where r.export_id = f.export_id and r.status = 'Running' and r.started_at <= f.replaced_at) and not (exists (select 1 from receipts c
                          where c.export_id = f.export_id and c.destination_version = f.version)
         or exists (select 1 from leftover_files l
                     where l.export_id = f.export_id and l.destination_version = f.version));

-- files/former-destinations.ts deleteSpentDestinations
update former_destinations f set destination_secrets = null
      where destination_secrets is not null and f.replaced_at < now() - interval '1 day'
        and not exists (select 1 from upload_places p where p.export_id = f.export_id and p.destination_version = f.version)
        and not exists (select 1 from runs r
                         where r.export_id = f.export_id and r.status = 'Running' and r.started_at <= f.replaced_at);

-- files/former-destinations.ts listFormerNames
-- takes $1 text, $2 text
-- gives prefix text, fileName text

     select distinct coalesce(c -> 'before' -> 'config' ->> 'prefix', '') as prefix,
            coalesce(c -> 'before' -> 'config' ->> 'file_name', $2) as "fileName"
       from activity a, jsonb_array_elements(a.changes) c
      where a.subject_type = 'batch_export' and a.subject_id = $1 and c ->> 'field' = 'destination'
        and jsonb_typeof(c -> 'before') = 'object' limit 20;

-- files/guarded-work.ts beginWork
-- takes $1 text, $2 text, $3 uuid, $4 double precision, $5 integer
-- gives isBegun boolean, isSetAside boolean
insert into guarded_work as g (kind, id, holder, expires_at) values ($1, $2, $3, now() + $4 * interval '1 ms')
     on conflict (kind, id) do update
        set deaths = (case when g.holder is null and g.died_at < now() - interval '6 hours' then 0 else g.deaths end + (g.holder is not null and g.holder <> $3)::int), died_at = case when g.holder is not null and g.holder <> $3 then now() else g.died_at end,
            holder = case when (case when g.holder is null and g.died_at < now() - interval '6 hours' then 0 else g.deaths end + (g.holder is not null and g.holder <> $3)::int) < $5 then $3::uuid end, expires_at = excluded.expires_at,
            set_aside_at = case when (case when g.holder is null and g.died_at < now() - interval '6 hours' then 0 else g.deaths end + (g.holder is not null and g.holder <> $3)::int) >= 3 then now() end
      where g.set_aside_at is null and (g.holder is null or g.holder = $3 or (g.expires_at <= clock_timestamp() or g.expires_at > clock_timestamp() + interval '65 minutes'))
     returning holder is not null as "isBegun", set_aside_at is not null as "isSetAside";

-- files/guarded-work.ts endWork
-- takes $1 text, $2 text, $3 uuid
with kept as (update guarded_work set holder = null where kind = $1 and id = $2 and holder = $3 and deaths > 0)
     delete from guarded_work where kind = $1 and id = $2 and holder = $3 and deaths = 0;

-- files/guarded-work.ts leaveWork
-- takes $1 uuid
update guarded_work set holder = null where holder = $1;

-- files/guarded-work.ts listWorkSetAside
-- takes $1 bigint
-- gives kind text, id text, deaths integer, setAsideAt timestamp with time zone
select kind, id, deaths, set_aside_at as "setAsideAt" from guarded_work where set_aside_at is not null order by set_aside_at, kind, id limit $1;

-- files/guarded-work.ts retryWork
-- takes $1 text
-- gives kind text, id text, deaths integer, setAsideAt timestamp with time zone
delete from guarded_work where set_aside_at is not null and ($1::text is null or id = $1) returning kind, id, deaths, set_aside_at as "setAsideAt";

-- files/known-commits.ts knowsCommit
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone, $4 integer, $5 text, $6 numeric, $7 text, $8 text, $9 boolean, $10 double precision
select from (select id, accepted_at from eras order by number desc limit 1) newest
      where case when $10::float8 is null then newest.accepted_at is not null
                 else $10 < (select max(extract(epoch from e.accepted_at + case when e.id = newest.id then interval '1 hour' else interval '0' end)) * 1000 from eras e) end
         or exists (select from eras where id::text = $7) and (
              exists (select from runs r where r.export_id = $1 and r.data_interval_start = $2 and r.data_interval_end = $3 and r.id::text = $5 and ($9 or $6::numeric <=
                        case when $7 = newest.id::text then r.committing_generation
                             else coalesce(r.era_generation, r.committing_generation) end))
           or exists (select from receipts c where c.export_id = $1 and c.data_interval_start = $2 and c.data_interval_end = $3 and $6::numeric <= c.generation
                         and ($9 or $5 = c.run_id::text or c.manifest_key = $8 and c.destination_version = $4))
           or exists (select from leftover_files l where l.export_id = $1 and l.data_interval_start = $2 and l.data_interval_end = $3 and l.destination_version = $4
                         and l.key = $8 and not l.uncommitted and $6::numeric <= l.generation));

-- files/known-commits.ts findCommit
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone, $4 jsonb
-- gives isWhole boolean, isChanged boolean, snapshot text, rowsRead bigint, isLookedAt boolean, waitsFor text, isAccepted boolean
select r.purpose = 'whole' and r.records_total_count - r.records_dropped = c.rows + (select coalesce(sum((f ->> 'rows')::bigint), 0) from jsonb_array_elements(c.rejected_files) f) as "isWhole",
            r.purpose <> 'whole' as "isChanged", case r.purpose when 'whole' then r.snapshot end as snapshot,
            coalesce(r.records_total_count, 0) as "rowsRead",
            not c.settled or c.data_interval_end > now() - case when e.mode = 'append' then coalesce(e.look_back_hours, ($4::jsonb -> 'modelLookbackHours' ->> e.model)::int, ($4::jsonb ->> 'lateLookbackHours')::int) else 0 end * interval '1 hour' as "isLookedAt",
            case when c.late_rows_wait is not null and not exists (
  select from accepted_intervals a where a.export_id = c.export_id and a.data_interval_start = c.data_interval_start
      and a.data_interval_end = c.data_interval_end and a.accepted_at >= c.pending_checked_at) then c.late_rows_wait end as "waitsFor",
            c.late_rows_wait is not null and not (c.late_rows_wait is not null and not exists (
  select from accepted_intervals a where a.export_id = c.export_id and a.data_interval_start = c.data_interval_start
      and a.data_interval_end = c.data_interval_end and a.accepted_at >= c.pending_checked_at)) as "isAccepted"
       from receipts c join runs r on r.id = c.run_id join batch_exports e on e.id = c.export_id
      where c.export_id = $1 and c.data_interval_start = $2 and c.data_interval_end = $3;

-- files/leftover-files.ts listLeftoverFiles
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone, $4 integer
-- gives key text, generation integer, manifestKey text, etag text, isRecent boolean, wasDeleted boolean
select l.key, l.generation, l.manifest_key as "manifestKey", l.etag,
            l.noted_at > now() - interval '1 day' as "isRecent", l.deleted_at is not null as "wasDeleted"
       from leftover_files l
      where l.export_id = $1 and l.data_interval_start = $2 and l.data_interval_end = $3 and l.destination_version = $4 and (l.deleted_at is null or l.deleted_at < now() - interval '1 hour')
        and not exists (select from receipts c where c.export_id = l.export_id and c.data_interval_start = l.data_interval_start
      and c.data_interval_end = l.data_interval_end and c.destination_version = l.destination_version
                           and l.key in (select f->>'key' from jsonb_array_elements(c.files || c.rejected_files) f))
        and not exists (select from runs r where r.export_id = l.export_id and r.status in ('Starting', 'Running')
                           and r.data_interval_start = l.data_interval_start and r.data_interval_end = l.data_interval_end)
      order by l.generation, l.key;

-- files/leftover-files.ts withdrawFiles
-- takes $1 uuid, $2 bigint, $3 integer, $4 text[]
delete from leftover_files l using runs r
      where r.id = $1 and r.fence = $2 and l.export_id = r.export_id and l.destination_version = $3
        and l.data_interval_start = r.data_interval_start and l.data_interval_end = r.data_interval_end
        and l.key = any ($4::text[]) and l.uncommitted;

-- files/leftover-files.ts forgetLeftoverFiles
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone, $4 integer, $5 text[]
with kept as (
       update leftover_files l set deleted_at = now(), tried_at = now(), tries = 0, uncommitted = false
        where l.export_id = $1 and l.data_interval_start = $2 and l.data_interval_end = $3 and l.destination_version = $4 and l.key = any ($5::text[]) and (l.deleted_at is null and l.manifest_key is not null and l.key <> l.manifest_key
  and (l.uncommitted or exists (select from runs r join receipts c on c.export_id = r.export_id and c.data_interval_start = r.data_interval_start
      and c.data_interval_end = r.data_interval_end
         where r.export_id = l.export_id and r.data_interval_start = l.data_interval_start
      and r.data_interval_end = l.data_interval_end
           and r.file_generation >= l.generation and r.id <> c.run_id and r.finished_at > now() - interval '1 hour')))
     )
     -- Another sweep may have deleted the object a moment ago.
     delete from leftover_files l where l.export_id = $1 and l.data_interval_start = $2 and l.data_interval_end = $3 and l.destination_version = $4 and l.key = any ($5::text[]) and (l.deleted_at is null or l.deleted_at < now() - interval '1 hour') and not (l.deleted_at is null and l.manifest_key is not null and l.key <> l.manifest_key
  and (l.uncommitted or exists (select from runs r join receipts c on c.export_id = r.export_id and c.data_interval_start = r.data_interval_start
      and c.data_interval_end = r.data_interval_end
         where r.export_id = l.export_id and r.data_interval_start = l.data_interval_start
      and r.data_interval_end = l.data_interval_end
           and r.file_generation >= l.generation and r.id <> c.run_id and r.finished_at > now() - interval '1 hour')));

-- files/leftover-files.ts listReplacedFiles
-- takes $1 uuid, $2 timestamp with time zone, $3 bigint
-- gives key text
select l.key from leftover_files l
       join receipts c on c.export_id = l.export_id and c.data_interval_start = l.data_interval_start
      and c.data_interval_end = l.data_interval_end and c.destination_version = l.destination_version
       join batch_exports e on e.id = l.export_id and e.destination_version = l.destination_version
      where l.export_id = $1 and l.deleted_at is null and ($2::timestamptz is null or l.data_interval_start >= $2)
        and (l.generation < c.generation or c.manifest_key is null)
        and l.key is distinct from l.manifest_key and l.key not in (select f->>'key' from jsonb_array_elements(c.files || c.rejected_files) f)
      order by l.key limit $3;

-- files/leftover-files.ts findLeftovers
-- takes $1 uuid, $2 text[]
-- gives key text
select key from leftover_files where export_id = $1 and key = any ($2::text[]);

-- files/leftover-files.ts listFormerManifests
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone, $4 integer
-- gives key text
select l.key from leftover_files l where l.export_id = $1 and l.data_interval_start = $2 and l.data_interval_end = $3 and l.destination_version = $4 and l.key = l.manifest_key and not l.uncommitted
      order by l.key;

-- files/leftover-files.ts findTeamsWithRemovals
-- takes $1 bigint
-- gives teamId integer
select e.team_id as "teamId" from leftover_files l
         join receipts c on c.export_id = l.export_id and c.data_interval_start = l.data_interval_start
      and c.data_interval_end = l.data_interval_end and c.destination_version = l.destination_version
         join batch_exports e on e.id = l.export_id and e.destination_version = l.destination_version
        where (l.generation < c.generation
               or c.manifest_key is null and c.era = (select id from eras order by number desc limit 1))
          and l.key not in (select f->>'key' from jsonb_array_elements(c.files || c.rejected_files) f) and l.tries < 18 and (l.deleted_at is null or l.deleted_at < now() - interval '1 hour')
          and not exists (select from guarded_work g where g.kind = 'remove_files' and g.id = l.export_id::text and g.set_aside_at is not null)
          -- A live run removes them at its end.
          and not exists (select from runs live where live.export_id = l.export_id and live.status in ('Starting', 'Running')
                             and live.data_interval_start = l.data_interval_start and live.data_interval_end = l.data_interval_end)
          and (l.tried_at is null or l.tried_at < now() - least(24, power(2, greatest(0, least(l.tries, 9) - 1))) * interval '1 hour') group by 1 order by random() limit $1;

-- files/leftover-files.ts endRemoval
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone, $4 integer, $5 boolean
update leftover_files l set tries = 0, tried_at = case when $5 then null else tried_at end where l.export_id = $1 and l.data_interval_start = $2 and l.data_interval_end = $3 and l.destination_version = $4;

-- files/leftover-files.ts takeRemoval
-- takes $1 integer
-- gives exportId uuid, interval json, destinationVersion integer, teamId integer, externalId uuid, type text, config jsonb, secrets bytea, model text, generation integer, fileGeneration integer, manifestKey text, era uuid, runId uuid
with due as (
       select l.export_id, l.data_interval_start, l.data_interval_end, l.destination_version
         from leftover_files l
         join receipts c on c.export_id = l.export_id and c.data_interval_start = l.data_interval_start
      and c.data_interval_end = l.data_interval_end and c.destination_version = l.destination_version
         join batch_exports e on e.id = l.export_id and e.destination_version = l.destination_version
        where (l.generation < c.generation
               or c.manifest_key is null and c.era = (select id from eras order by number desc limit 1))
          and l.key not in (select f->>'key' from jsonb_array_elements(c.files || c.rejected_files) f) and l.tries < 18 and (l.deleted_at is null or l.deleted_at < now() - interval '1 hour')
          and not exists (select from guarded_work g where g.kind = 'remove_files' and g.id = l.export_id::text and g.set_aside_at is not null)
          -- A live run removes them at its end.
          and not exists (select from runs live where live.export_id = l.export_id and live.status in ('Starting', 'Running')
                             and live.data_interval_start = l.data_interval_start and live.data_interval_end = l.data_interval_end)
          and (l.tried_at is null or l.tried_at < now() - least(24, power(2, greatest(0, least(l.tries, 9) - 1))) * interval '1 hour') and e.team_id = $1 limit 1
     ), taken as (
       update leftover_files l set tried_at = now(), tries = l.tries + 1 from due d
        where l.export_id = d.export_id and l.data_interval_start = d.data_interval_start
      and l.data_interval_end = d.data_interval_end and l.destination_version = d.destination_version
     )
     select d.export_id as "exportId", json_build_object('start', floor(extract(epoch from d.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from d.data_interval_end) * 1000)::bigint) as interval,
            d.destination_version as "destinationVersion", e.team_id as "teamId", p.external_id as "externalId",
            e.destination_type as type, e.destination_config as config, e.destination_secrets as secrets, e.model,
            c.generation, r.file_generation as "fileGeneration", c.manifest_key as "manifestKey", c.era, c.run_id as "runId"
       from due d join batch_exports e on e.id = d.export_id join projects p on p.id = e.team_id
       join receipts c on c.export_id = d.export_id and c.data_interval_start = d.data_interval_start
      and c.data_interval_end = d.data_interval_end
       join runs r on r.id = c.run_id;

-- files/run-files.ts findFilesOf
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone, $4 uuid
-- gives runId uuid, generation integer, manifestKey text, files jsonb, rejectedFiles jsonb, runGeneration integer, destination json
select c.run_id as "runId", c.generation, c.manifest_key as "manifestKey", c.files,
            c.rejected_files as "rejectedFiles",
            (select r.committing_generation from runs r where r.id = $4 and r.status = 'Completed') as "runGeneration", json_build_object('type', e.destination_type,
              'leftVersion', nullif(c.destination_version, e.destination_version),
              'config', case when c.destination_version = e.destination_version then e.destination_config
                             else coalesce(f.destination_config, e.destination_config) end) as destination
       from receipts c join batch_exports e on e.id = c.export_id
       left join former_destinations f on f.export_id = c.export_id and f.version = c.destination_version
      where c.export_id = $1 and c.data_interval_start = $2 and c.data_interval_end = $3;

-- files/store-traits.ts findStoreTraits
-- takes $1 uuid, $2 integer, $3 double precision
-- gives traits jsonb
select store_traits as traits from batch_exports
      where id = $1 and store_traits_version = $2 and store_traits_at > now() - $3 * interval '1 day';

-- files/store-traits.ts keepStoreTraits
-- takes $1 uuid, $2 integer, $3 jsonb
update batch_exports set store_traits = $3, store_traits_version = $2, store_traits_at = now()
      where id = $1 and destination_version = $2;

-- files/unfinished-commits.ts listUnfinishedCommits
-- takes $1 uuid, $2 timestamp with time zone
-- gives interval json, hasReceipt boolean
select json_build_object('start', floor(extract(epoch from l.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from l.data_interval_end) * 1000)::bigint) as interval, l.generation is not null as "hasReceipt"
       from (select distinct l.data_interval_start, l.data_interval_end, c.generation
               from leftover_files l join batch_exports e on e.id = l.export_id and e.destination_version = l.destination_version
               left join receipts c on c.export_id = l.export_id and c.data_interval_start = l.data_interval_start
      and c.data_interval_end = l.data_interval_end and c.destination_version = l.destination_version
              where l.export_id = $1 and l.uncommitted and l.deleted_at is null and ($2::timestamptz is null or l.data_interval_start >= $2)
                -- An older one is only removed.
                and (c.generation is null or c.manifest_key is null or l.generation > c.generation)
                and not exists (select from runs r where r.export_id = l.export_id and r.status in ('Starting', 'Running')
                       and r.data_interval_start = l.data_interval_start and r.data_interval_end = l.data_interval_end)) l
      order by l.data_interval_start, l.data_interval_end;

-- files/unfinished-commits.ts countDeletedAgain
-- takes $1 uuid
-- gives count bigint
select count(*) from leftover_files l join batch_exports e on e.id = l.export_id and e.destination_version = l.destination_version where l.export_id = $1 and l.deleted_at is not null;

-- files/upload-places.ts noteUploads
-- takes $1 uuid, $2 bigint, $3 integer, $4 double precision
with held as (
       update runs set lease_expires_at = now() + $4 * interval '1 ms'
        where id = $1 and fence = $2 and runs.status not in ('Starting', 'Completed', 'Failed', 'FailedRetryable', 'Cancelled') returning export_id
     ), noted as (
       insert into upload_places as p (export_id, destination_version) select export_id, $3 from held
       on conflict (export_id, destination_version) do update set notes = p.notes + 1
     )
     select from held;

-- files/upload-places.ts findTeamsToLookAt
-- takes $1 bigint
-- gives teamId integer
select e.team_id as "teamId" from upload_places p join batch_exports e on e.id = p.export_id
  where p.look_at <= now() and not exists (select from guarded_work g where g.kind = 'abort_uploads' and g.id = p.export_id::text and g.set_aside_at is not null) group by 1 order by random() limit $1;

-- files/upload-places.ts takeUploadPlace
-- takes $1 integer, $2 double precision
-- gives teamId integer, exportId uuid, externalId uuid, model text, type text, config jsonb, secrets bytea, destinationVersion integer, notes integer, tries integer, isBusy boolean
with chosen as (
       select p.export_id, p.destination_version from upload_places p join batch_exports e on e.id = p.export_id
  where p.look_at <= now() and not exists (select from guarded_work g where g.kind = 'abort_uploads' and g.id = p.export_id::text and g.set_aside_at is not null) and e.team_id = $1
        order by p.look_at limit 1 for update of p skip locked
     ), taken as (
       update upload_places p set tries = p.tries + 1, look_at = now() + $2 * interval '1 ms' + least(21600, 5 * power(2, least(p.tries, 20))) * interval '1 s'
         from chosen where p.export_id = chosen.export_id and p.destination_version = chosen.destination_version returning p.*
     )
     select e.team_id as "teamId", e.id as "exportId", o.external_id as "externalId", e.model, e.destination_type as type,
            case when f.version is null then e.destination_config else f.destination_config end as config,
            case when f.version is null then e.destination_secrets else f.destination_secrets end as secrets,
            t.destination_version as "destinationVersion", t.notes, t.tries,
            exists (select from runs r where r.export_id = e.id and r.status in ('Starting', 'Running')) as "isBusy"
       from taken t join batch_exports e on e.id = t.export_id join projects o on o.id = e.team_id
       left join former_destinations f on f.export_id = e.id and f.version = t.destination_version;

-- files/upload-places.ts endLook
-- takes $1 uuid, $2 integer, $3 integer
-- gives export_id uuid
delete from upload_places where export_id = $1 and destination_version = $2 and notes = $3 returning export_id;

-- files/upload-places.ts endLook
-- takes $1 uuid, $2 integer, $3 integer
update upload_places set tries = $3::int, look_at = now() + interval '1 hour'
      where export_id = $1 and destination_version = $2;

-- files/upload-places.ts endLook
-- takes $1 uuid, $2 integer, $3 integer
update upload_places set tries = $3::int, look_at = now() + least(21600, 5 * power(2, least($3::int - 1, 20))) * interval '1 s'
      where export_id = $1 and destination_version = $2;

-- files/upload-places.ts endLook
-- takes $1 uuid, $2 integer, $3 integer
update upload_places set tries = $3::int, look_at = now() + interval '5 s'
      where export_id = $1 and destination_version = $2;

-- files/upload-places.ts forgetUploadPlace
-- takes $1 uuid, $2 integer
delete from upload_places where export_id = $1 and destination_version = $2;

-- files/upload-places.ts judgeUploads
-- takes $1 uuid, $2 jsonb
-- gives key text, interval json, isAbandoned boolean, others jsonb
select k.key, json_build_object('start', floor(extract(epoch from i.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from i.data_interval_end) * 1000)::bigint) as interval,
            not exists (select from runs r where r.export_id = e.id and r.data_interval_start = i.data_interval_start and r.data_interval_end = i.data_interval_end
   and r.status = 'Running' and r.lease_expires_at is not null and (r.file_generation <= k.generation or exists (select from receipts c where c.export_id = r.export_id and c.data_interval_start = r.data_interval_start
      and c.data_interval_end = r.data_interval_end and c.manifest_key is null)))
              and (e.deleted_at is not null or not (exists (select from leftover_files l
   where l.export_id = e.id and l.key = k.key and l.uncommitted and l.noted_at > now() - interval '1 day'
     and not exists (select from receipts c where c.export_id = l.export_id and c.data_interval_start = l.data_interval_start
      and c.data_interval_end = l.data_interval_end and c.destination_version = l.destination_version
                        and c.manifest_key = l.manifest_key and c.generation > l.generation)) or exists (select from runs r where r.export_id = e.id and r.data_interval_start = i.data_interval_start
   and r.data_interval_end = i.data_interval_end and exists (select from receipts c where c.export_id = r.export_id and c.data_interval_start = r.data_interval_start
      and c.data_interval_end = r.data_interval_end and c.manifest_key is null) and r.finished_at > now() - interval '1 hour'))) as "isAbandoned",
            coalesce((select jsonb_agg(jsonb_build_object('exportId', o.id, 'model', o.model, 'config', o.destination_config))
                        from runs r join batch_exports o on o.id = r.export_id
                       where r.team_id = e.team_id and r.export_id <> e.id and r.data_interval_start = i.data_interval_start and r.data_interval_end = i.data_interval_end
   and r.status = 'Running' and r.lease_expires_at is not null and (r.file_generation <= k.generation or exists (select from receipts c where c.export_id = r.export_id and c.data_interval_start = r.data_interval_start
      and c.data_interval_end = r.data_interval_end and c.manifest_key is null))), '[]') as others
       from jsonb_to_recordset($2::jsonb) as k (key text, start timestamptz, generation int)
       join batch_exports e on e.id = $1
       join lateral (
         select r.data_interval_start, r.data_interval_end, max(r.file_generation) as given from runs r
          where r.export_id = $1 and r.data_interval_start = k.start group by 1, 2) i on k.generation <= i.given;

-- files/upload-places.ts findEndedRuns
-- takes $1 uuid[]
-- gives id uuid
select id from runs where id = any ($1::uuid[]) and finished_at is not null;
