import {
  choice,
  flag,
  list,
  optionalText,
  postgresUrl,
  type Setting,
  text,
  wholeNumber,
} from './setting.ts';

/** Every environment variable that Sluice reads. The README's table is generated from here. */
export const settings = {
  PORT: wholeNumber({ about: 'Port of the API.', default: 8000, min: 0, max: 65_535 }),
  HOST: text({ about: 'Address the API listens on.', default: '127.0.0.1' }),
  DATABASE_URL: postgresUrl(
    'PostgreSQL (15 to 18) for our own tables. Without it an embedded PostgreSQL 18 is started.',
    'embedded',
  ),
  SOURCE_DATABASE_URL: postgresUrl('PostgreSQL whose rows are exported.', 'DATABASE_URL'),
  SOURCE_PRIMARY_URL: postgresUrl(
    'If SOURCE_DATABASE_URL is a standby: its primary, on which runs wait for transactions to end. Nothing is read there.',
  ),
  ALLOW_UNSETTLED_STANDBY: flag({
    about:
      'Export a standby although its primary is not known. Its intervals stay unsettled: rows can be missing, and only LATE_LOOKBACK_HOURS finds them.',
    default: false,
  }),
  MODELS_FILE: optionalText({
    about:
      'Path of models.yaml, which says what can be exported beside the table events; see docs/models.md.',
  }),
  REDIS_URL: optionalText({
    about: 'Redis (noeviction) for the queues. Without it they live in DATABASE_URL.',
    secret: true,
    matches: /^rediss?:\/\//,
    mustBe: 'a redis:// or rediss:// address',
  }),
  SLUICE_DATA_DIR: text({
    about: 'Where the embedded database and its generated keys live.',
    default: './.sluice',
  }),
  ENCRYPTION_KEYS: list({
    about:
      'Keys that seal destination secrets, `id:base64 of 32 bytes`, comma separated; the first seals, all open. Without it a key is made and kept in SLUICE_DATA_DIR, which serves one machine only.',
    secret: true,
  }),
  AUTO_MIGRATE: flag({
    about: 'Bring our own tables up to date at every start; else `sluice migrate` does.',
    default: true,
  }),
  WORKER_PORT: optionalText({
    about: 'Port on which a worker answers /livez, /readyz and /metrics; none by default.',
    matches: /^\d{1,5}$/,
    mustBe: 'a port',
  }),
  RATE_LIMIT_PER_MINUTE: wholeNumber({
    about: 'Requests of one API key a minute.',
    default: 480,
    min: 1,
    max: 1_000_000,
  }),
  RATE_LIMIT_PER_HOUR: wholeNumber({
    about: 'Requests of one API key an hour.',
    default: 4_800,
    min: 1,
    max: 10_000_000,
  }),
  LOG_LEVEL: choice({
    about: 'Least level of the process log.',
    default: 'info',
    of: ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
  }),
  TRUST_PROXY: flag({ about: 'Honour X-Forwarded-* of a proxy in front.', default: false }),
  DATABASE_POOL_SIZE: wholeNumber({
    about: 'Most connections of one process to DATABASE_URL.',
    default: 20,
    min: 4,
    max: 500,
  }),
  MIN_INTERVAL_MINUTES: wholeNumber({
    about: 'Shortest interval an export may have, minutes.',
    default: 5,
    min: 1,
    max: 60,
  }),
  MAX_JITTER_SECONDS: wholeNumber({
    about:
      'Most seconds that the start of a run is spread over (never above 5% of the interval); 0 turns it off.',
    default: 300,
    min: 0,
    max: 3_600,
  }),
  WORKER_CONCURRENCY: wholeNumber({
    about: 'Runs that one worker executes at a time.',
    default: 4,
    min: 1,
    max: 100,
  }),
  WORKER_MEMORY_MB: wholeNumber({
    about:
      'Memory one worker may use, MiB. It starts a run only where 150 for itself and what its runs may need fit: each 8, 4 for text or 56 for Parquet, 12, 24 or 32 for text in gzip, zstd or brotli, and UPLOAD_PART_MIB × (UPLOAD_PARTS_IN_FLIGHT + 1). A larger run goes alone. A run under which two workers crashed gets a process of its own, which may use as much again, and 512 at least.',
    default: 512,
    min: 192,
    max: 1_048_576,
  }),
  MAX_ROW_MIB: wholeNumber({
    about:
      'Largest row, MiB, and so the largest field. A run with a larger row fails with source.row_too_large. Previews take rows of 1 MiB.',
    default: 64,
    min: 1,
    max: 1_024,
  }),
  MAX_RUNS_PER_EXPORT: wholeNumber({
    about: 'Runs of one export at a time.',
    default: 3,
    min: 1,
    max: 1_000,
  }),
  MAX_RUNS_PER_TENANT: wholeNumber({
    about: 'Runs of one project at a time.',
    default: 20,
    min: 1,
    max: 10_000,
  }),
  LEASE_SECONDS: wholeNumber({
    about: 'A worker that is silent for so long loses its run.',
    default: 60,
    min: 2,
    max: 3_600,
  }),
  RETRY_MAX_ATTEMPTS: wholeNumber({
    about: 'Attempts of a run before FailedRetryable.',
    default: 10,
    min: 1,
    max: 100,
  }),
  RETRY_BASE_SECONDS: wholeNumber({
    about: 'First backoff between attempts; doubles each time, full jitter.',
    default: 30,
    min: 0,
    max: 3_600,
  }),
  BACKFILL_CONCURRENCY: wholeNumber({
    about: 'Runs of one backfill at a time.',
    default: 2,
    min: 1,
    max: 100,
  }),
  SETTLE_TIMEOUT_SECONDS: wholeNumber({
    about:
      "How long a run waits until the source's clock has passed its interval and no transaction may add rows to it. Then the interval is exported unsettled and looked at again.",
    default: 300,
    min: 0,
    max: 86_400,
  }),
  LATE_LOOKBACK_HOURS: wholeNumber({
    about:
      'How far back to re-check completed intervals for late rows; needed if clients set the timestamps. 0 re-checks only intervals that are not settled.',
    default: 0,
    min: 0,
    max: 720,
  }),
  SHUTDOWN_GRACE_SECONDS: wholeNumber({
    about: 'On SIGTERM, how long work may take to be handed back before the process exits.',
    default: 25,
    min: 1,
    max: 600,
  }),
  ALLOWED_PRIVATE_ENDPOINTS: list({
    about: 'Endpoints on private addresses that tenants may name, `host` or `host:port`.',
  }),
  ALLOW_AMBIENT_CREDENTIALS: flag({
    about: "Exports without keys may use the process's own AWS credentials.",
    default: false,
  }),
  FILE_DESTINATION_ROOT: optionalText({
    about: 'Folder below which the File destination may write; without it that type is refused.',
  }),
  UPLOAD_PART_MIB: wholeNumber({
    about: 'Size of the first parts of an upload, MiB; later parts grow.',
    default: 8,
    min: 5,
    max: 512,
  }),
  UPLOAD_PARTS_IN_FLIGHT: wholeNumber({
    about: 'Parts of one file that are sent at a time.',
    default: 2,
    min: 1,
    max: 32,
  }),
  UPLOAD_MAX_PARTS: wholeNumber({
    about: 'Most parts of one upload; parts grow so that any file fits.',
    default: 10_000,
    min: 2,
    max: 10_000,
  }),
  STS_ENDPOINT: optionalText({
    about: "Where roles are assumed; by default the region's own endpoint at AWS.",
  }),
  UPLOAD_STALL_SECONDS: wholeNumber({
    about: 'An upload that moves no byte for so long is broken off and tried again.',
    default: 60,
    min: 1,
    max: 3_600,
  }),
  QUICKSTART_S3_ENDPOINT: optionalText({
    about: 'S3 that the quickstart writes to, instead of a local one of its own.',
    matches: /^https?:\/\//,
    mustBe: 'an http:// or https:// address',
  }),
  QUICKSTART_S3_BUCKET: text({ about: 'Its bucket.', default: 'sluice-quickstart' }),
  QUICKSTART_S3_KEY: optionalText({ about: 'Its access key id.', secret: true }),
  QUICKSTART_S3_SECRET: optionalText({ about: 'Its secret access key.', secret: true }),
  LOG_RETENTION_DAYS: wholeNumber({
    about: 'Days that log entries are kept.',
    default: 30,
    min: 1,
    max: 3_650,
  }),
  RETENTION_DAYS: wholeNumber({
    about: 'Days that finished runs, ticks and deleted exports are kept.',
    default: 365,
    min: 1,
    max: 36_500,
  }),
} as const satisfies Record<string, Setting<unknown>>;
