const struckSettings = {
  ALLOW_PRIVILEGED_SOURCE:
    'Give SOURCE_DATABASE_URL a role that only reads. Without NODE_ENV=production, another role is a warning.',
  FRESHNESS_MINUTES:
    'Set deadline_minutes or deadline_at of exports. Without a deadline, data is late after two intervals and six minutes.',
  MAIL_TRUSTED_DOMAINS: 'List addresses and domains in MAIL_RECIPIENTS.',
  MAX_EMAILS_PER_HOUR:
    'Mail goes only to MAIL_RECIPIENTS, at most 20 of a type of event within five minutes.',
  MAX_EXPORTS_PER_PROJECT: 'A project has at most 1,000 exports. Use another project for more.',
  MAX_RUNS_PER_EXPORT:
    'Set BACKFILL_CONCURRENCY: an export has at most one run more than that at a time.',
  MAX_SNAPSHOT_HOURS: 'A run reads from one snapshot of the source for 24 hours at most.',
  OTEL_EXPORTER_OTLP_ENDPOINT:
    'Sluice sends no traces. /metrics and the log of a run have what a trace had.',
  OTEL_EXPORTER_OTLP_HEADERS: 'Sluice sends no traces.',
  RATE_LIMIT_PER_HOUR:
    'Set RATE_LIMIT_PER_MINUTE: a key may send ten times as many requests per hour.',
  SOURCE_LOCK_WAIT_SECONDS:
    'A run gives up a table of the source for which another session has waited 5 seconds.',
  UPLOAD_PARTS_IN_FLIGHT: 'A worker sends two parts of a file at a time.',
  UPLOAD_MIN_KIB_PER_SECOND:
    'Set UPLOAD_STALL_SECONDS: after this time each request must have moved 16 KiB per second.',
};

/** Returns a fault for each variable that is set, was a setting and is none any more. */
export function findStruckSettings(env: Readonly<Record<string, string | undefined>>): string[] {
  return Object.entries(struckSettings)
    .filter(([name]) => env[name])
    .map(([name, instead]) => `${name} is no longer a setting: remove it. ${instead}`);
}
