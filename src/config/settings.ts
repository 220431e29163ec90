import {
  choice,
  flag,
  list,
  optionalNumber,
  optionalText,
  postgresUrl,
  type Setting,
  text,
  wholeNumber,
} from './setting.ts';

/** Every environment variable that Sluice reads. `npm run docs` writes the tables of settings from it. */
export const settings = {
  PORT: wholeNumber({ about: 'Port of the API.', default: 8000, min: 0, max: 65_535 }),
  HOST: text({ about: 'Address that the API listens on.', default: '127.0.0.1' }),
  DATABASE_URL: postgresUrl(
    "PostgreSQL (15 to 18) for Sluice's own tables. Without it, Sluice starts an embedded PostgreSQL 18.",
    'embedded',
  ),
  SOURCE_DATABASE_URL: postgresUrl('PostgreSQL to export rows from.', 'DATABASE_URL'),
  SOURCE_PRIMARY_URL: postgresUrl(
    'Address of the primary, if SOURCE_DATABASE_URL is a standby. Runs wait there for transactions to end; they read no rows from it.',
  ),
  ALLOW_UNSETTLED_STANDBY: flag({
    about:
      'Allow exports from a standby without a known primary. Their intervals stay unsettled: rows can be missing, and only LATE_LOOKBACK_HOURS finds them.',
    default: false,
  }),
  MODELS_FILE: optionalText({
    about:
      'Path of models.yaml. It defines what can be exported besides the table events; see docs/models.md.',
  }),
  REDIS_URL: optionalText({
    about:
      'Redis for the queues; its maxmemory-policy must be noeviction. Without it, the queues are in DATABASE_URL.',
    secret: true,
    matches: /^rediss?:\/\//,
    mustBe: 'a redis:// or rediss:// address',
  }),
  SLUICE_DATA_DIR: text({
    about: 'Folder of the embedded database and of generated keys.',
    default: './.sluice',
  }),
  ENCRYPTION_KEYS: list({
    about:
      'Keys that encrypt destination secrets, as `id:base64 of 32 bytes`: the first encrypts, all decrypt. Without it, Sluice generates a key in SLUICE_DATA_DIR, which works on one machine only.',
    secret: true,
  }),
  AUTO_MIGRATE: flag({
    about: "Migrate Sluice's own tables at every start. If false, run `sluice migrate`.",
    default: true,
  }),
  WORKER_PORT: optionalText({
    about:
      'Port of a worker for /livez, /readyz and /metrics. Without it, the worker opens no port.',
    matches: /^\d{1,5}$/,
    mustBe: 'a port number',
  }),
  METRICS_PORT: optionalText({
    about:
      "Port of the API process for /livez, /readyz and /metrics, without a key: keep it private. The API's own port serves /metrics to admin keys only.",
    matches: /^\d{1,5}$/,
    mustBe: 'a port number',
  }),
  PUBLIC_URL: optionalText({
    about:
      'Address at which clients reach the API, for the links next and previous. Without it, links have the Host of a trusted proxy (TRUST_PROXY) or of loopback, else the address of the connection.',
    matches: /^https?:\/\/[^\s/?#@]+(\/[^\s?#]*)?$/,
    mustBe: 'an http:// or https:// address',
  }),
  FAILED_KEYS_PER_MINUTE: wholeNumber({
    about:
      'Maximum requests per minute with an API key that is not valid, from one address (IPv6: from one /64). Requests with a valid key are not affected.',
    default: 60,
    min: 1,
    max: 1_000_000,
  }),
  RATE_LIMIT_PER_MINUTE: wholeNumber({
    about: 'Maximum requests of one API key per minute.',
    default: 480,
    min: 1,
    max: 1_000_000,
  }),
  RATE_LIMIT_PER_HOUR: wholeNumber({
    about: 'Maximum requests of one API key per hour.',
    default: 4_800,
    min: 1,
    max: 10_000_000,
  }),
  LOG_LEVEL: choice({
    about: 'Minimum log level.',
    default: 'info',
    of: ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
  }),
  TRUST_PROXY: flag({
    about: 'Trust the X-Forwarded-* headers. Set it only behind a proxy that sets them.',
    default: false,
  }),
  DATABASE_POOL_SIZE: wholeNumber({
    about: 'Maximum connections of one process to DATABASE_URL.',
    default: 20,
    min: 4,
    max: 500,
  }),
  MIN_INTERVAL_MINUTES: wholeNumber({
    about: 'Minimum interval of an export, in minutes.',
    default: 5,
    min: 1,
    max: 60,
  }),
  MAX_JITTER_SECONDS: wholeNumber({
    about:
      "Maximum jitter in seconds added to a run's start, at most 5% of the interval. 0 turns it off.",
    default: 300,
    min: 0,
    max: 3_600,
  }),
  WORKER_CONCURRENCY: wholeNumber({
    about: 'Slots of one worker: the maximum number of runs it executes at a time.',
    default: 4,
    min: 1,
    max: 100,
  }),
  WORKER_MEMORY_MB: wholeNumber({
    about:
      'Memory of one worker in MiB. It starts a run only if the run fits; see docs/configuration.md.',
    default: 512,
    min: 192,
    max: 1_048_576,
  }),
  MAX_ROW_MIB: optionalNumber({
    about:
      'Maximum size of a row in MiB. A run with a larger row fails with source.row_too_large. A worker refuses to start if four times as much does not fit into WORKER_MEMORY_MB. In previews the maximum is 1 MiB.',
    default: '64, or what fits into WORKER_MEMORY_MB',
    min: 1,
    max: 1_024,
  }),
  MAX_RUNS_PER_EXPORT: wholeNumber({
    about: 'Maximum runs of one export at a time.',
    default: 3,
    min: 1,
    max: 1_000,
  }),
  MAX_RUNS_PER_TENANT: wholeNumber({
    about: 'Maximum runs of one project at a time.',
    default: 20,
    min: 1,
    max: 10_000,
  }),
  LEASE_SECONDS: wholeNumber({
    about: 'Seconds without a heartbeat after which a worker loses its run.',
    default: 60,
    min: 2,
    max: 3_600,
  }),
  RETRY_MAX_ATTEMPTS: wholeNumber({
    about: 'Maximum attempts of a run. Then it ends as FailedRetryable.',
    default: 10,
    min: 1,
    max: 100,
  }),
  RETRY_BASE_SECONDS: wholeNumber({
    about:
      'Maximum wait in seconds before the second attempt. It doubles with each attempt, up to one hour; the wait is a random part of it.',
    default: 30,
    min: 0,
    max: 3_600,
  }),
  BACKFILL_CONCURRENCY: wholeNumber({
    about: 'Maximum runs of one backfill at a time, unless the request says another number.',
    default: 2,
    min: 1,
    max: 100,
  }),
  SETTLE_TIMEOUT_SECONDS: wholeNumber({
    about:
      "Maximum seconds that a run waits for the source's clock to pass its interval, and for transactions that may still add rows to it. After that it exports the interval as unsettled, and Sluice re-checks it later.",
    default: 300,
    min: 0,
    max: 86_400,
  }),
  LATE_LOOKBACK_HOURS: wholeNumber({
    about:
      'How far back to re-check completed intervals for late rows; needed if clients set the timestamps. 0 re-checks only intervals whose transactions had not finished.',
    default: 0,
    min: 0,
    max: 720,
  }),
  SHUTDOWN_GRACE_SECONDS: wholeNumber({
    about:
      'Maximum seconds that a process takes after SIGTERM to hand back its work before it exits.',
    default: 25,
    min: 1,
    max: 600,
  }),
  ALLOWED_PRIVATE_ENDPOINTS: list({
    about: 'Endpoints on private addresses that exports may use, as `host` or `host:port`.',
  }),
  ALLOW_AMBIENT_CREDENTIALS: flag({
    about: "Allow exports without credentials to use the process's own AWS credentials.",
    default: false,
  }),
  FILE_DESTINATION_ROOT: optionalText({
    about: 'Folder that File destinations write to. Without it, that type is refused.',
  }),
  UPLOAD_PART_MIB: wholeNumber({
    about: 'Size in MiB of the first parts of an upload. Later parts grow.',
    default: 8,
    min: 5,
    max: 512,
  }),
  UPLOAD_PARTS_IN_FLIGHT: wholeNumber({
    about: 'Maximum parts of one file that are sent at a time.',
    default: 2,
    min: 1,
    max: 32,
  }),
  UPLOAD_MAX_PARTS: wholeNumber({
    about: 'Maximum parts of one upload. Parts grow so that every file fits.',
    default: 10_000,
    min: 2,
    max: 10_000,
  }),
  STS_ENDPOINT: optionalText({
    about: "Endpoint of STS for roles. Without it, the region's endpoint of AWS.",
  }),
  UPLOAD_STALL_SECONDS: wholeNumber({
    about: 'Seconds without progress after which an upload is aborted and retried.',
    default: 60,
    min: 1,
    max: 3_600,
  }),
  QUICKSTART_S3_ENDPOINT: optionalText({
    about: 'S3 endpoint that the quickstart writes to. Without it, the quickstart starts its own.',
    matches: /^https?:\/\//,
    mustBe: 'an http:// or https:// address',
  }),
  QUICKSTART_S3_BUCKET: text({ about: 'Bucket of the quickstart.', default: 'sluice-quickstart' }),
  QUICKSTART_S3_KEY: optionalText({ about: 'Access key ID of the quickstart.', secret: true }),
  QUICKSTART_S3_SECRET: optionalText({
    about: 'Secret access key of the quickstart.',
    secret: true,
  }),
  LOG_RETENTION_DAYS: wholeNumber({
    about: 'Days to keep log entries.',
    default: 30,
    min: 1,
    max: 3_650,
  }),
  RETENTION_DAYS: wholeNumber({
    about: 'Days to keep finished runs, ticks and deleted exports.',
    default: 365,
    min: 1,
    max: 36_500,
  }),
} as const satisfies Record<string, Setting<unknown>>;
