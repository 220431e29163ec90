-- A backfill can export exactly the intervals that were asked for and have no data: the holes of the export. The check only
-- becomes wider, so the build before works on.
-- Contracts: 0.1.0 stopped using the name backfills_reprocess_check
alter table backfills drop constraint backfills_reprocess_check;
alter table backfills add constraint backfills_reprocess_check check (reprocess in ('all', 'failed', 'missing', 'none'));
