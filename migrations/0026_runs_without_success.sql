-- Up Migration

-- An export's runs that failed or were cancelled, as the lists of runs show them by status. The end of a run touches the
-- indexes of its status anyway, and a run that completes is in neither of these. Writes to runs wait while they are built,
-- about a second for a million rows.
create index runs_without_success on runs (export_id, status, created_at desc, id desc)
  where status in ('Failed', 'FailedRetryable', 'Cancelled');
create index runs_without_success_by_interval on runs (export_id, status, data_interval_start desc, id desc)
  where status in ('Failed', 'FailedRetryable', 'Cancelled');

-- Down Migration

drop index runs_without_success_by_interval, runs_without_success;
