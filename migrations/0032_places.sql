-- Up Migration

-- The tag that the store gave the object when it took our put; null if no receipt ever named it.
alter table leftover_files add column etag text;

-- The version of the export's destination with which this place was last compared, by an object that a sweep puts at the
-- one and looks for at the other; null before. The address of a place says little: a bucket can have several.
alter table former_destinations add column compared_with integer;
alter table former_destinations add column compare_tries integer not null default 0;
alter table former_destinations add column compare_after timestamptz;

-- The generation whose commit the run had begun last when the current era began; null if it was not live then. A copy of
-- the database may have gone on with the run.
alter table runs add column era_generation integer;

-- Down Migration

alter table runs drop column era_generation;
alter table former_destinations drop column compare_after, drop column compare_tries, drop column compared_with;
alter table leftover_files drop column etag;
