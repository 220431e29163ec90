import {
  choice,
  count,
  flag,
  list,
  noProxyList,
  optionalNumber,
  optionalText,
  port,
  postgresUrl,
  redisUrl,
  type Setting,
  text,
  wholeNumber,
} from './setting.ts';

/** Every environment variable that Sluice reads. `npm run docs` writes the tables of settings from it. */
export const settings = {
  PORT: wholeNumber('Port of the API.', 8000, [0, 65_535]),
  HOST: text('Address on which the API listens.', '127.0.0.1'),
  DATABASE_URL: postgresUrl(
    "PostgreSQL (15 to 18) for Sluice's own tables. Without it, Sluice starts an embedded PostgreSQL 18.",
    'embedded',
    true,
  ),
  DATABASE_DIRECT_URL: postgresUrl(
    'Address of the same database without the pooler. Set it if DATABASE_URL is a PgBouncer in transaction mode. Migrations, and queues in PostgreSQL, use it; see docs/operate.md.',
    'DATABASE_URL',
    true,
  ),
  SOURCE_DATABASE_URL: postgresUrl(
    'PostgreSQL from which Sluice exports rows.',
    'DATABASE_DIRECT_URL, else DATABASE_URL',
  ),
  SOURCE_PRIMARY_URL: postgresUrl(
    'Address of the primary, if SOURCE_DATABASE_URL is a standby. Runs wait for transactions to end on the primary, but read no rows from it.',
  ),
  ALLOW_UNSETTLED_STANDBY: flag(
    'Allow exports from a standby without a known primary. Their intervals stay unsettled: rows can be missing, and only look-backs find them (look_back_hours of a model or export).',
    false,
  ),
  NODE_ENV: optionalText(
    "If `production`, Sluice does not start with a source role that is a superuser or may read Sluice's own tables. Otherwise it logs a warning.",
  ),
  MODELS_FILE: optionalText(
    'Path of models.yaml. This file defines which tables and views can be exported. The table events needs no entry; see docs/models.md.',
  ),
  REDIS_URL: redisUrl(
    'Redis for the queues: one server, or a proxy to it. Set maxmemory-policy noeviction in Redis. Without REDIS_URL, the queues are in DATABASE_URL.',
  ),
  SLUICE_DATA_DIR: text('Folder of the embedded database and of generated keys.', './.sluice'),
  ENCRYPTION_KEYS: list(
    'Keys that encrypt destination secrets, each as `id:base64 of 32 bytes`. The first key encrypts, all keys decrypt. Without it, Sluice generates a key in SLUICE_DATA_DIR, which works only on one machine.',
    { secret: true },
  ),
  AUTO_MIGRATE: flag(
    "Migrate Sluice's own tables at every start. If false, run `sluice migrate`.",
    true,
  ),
  METRICS_PORT: port(
    'A second port of the API process, for /livez, /readyz and /metrics. It needs no key, so keep it private. The main port serves /metrics only to the keys of operators.',
  ),
  PUBLIC_URL: optionalText(
    'Public address of the API and the console. Sluice uses it for next and previous links and for links in notifications. Without it, links use the Host header if it comes from a trusted proxy (TRUST_PROXY) or from loopback. Otherwise they use the address of the connection.',
    {
      matches: /^https?:\/\/[^\s/?#@]+\/?$/,
      mustBe:
        'an http:// or https:// address without a path: the page and the API are at the root of a host of their own',
    },
  ),
  WORKER_PORT: port(
    'Port of a worker for /livez, /readyz and /metrics. Without it, the worker opens no port. Each worker of a machine needs one of its own, and another one than METRICS_PORT.',
  ),
  RATE_LIMIT_PER_MINUTE: wholeNumber(
    'Maximum requests of one API key per minute, and ten times as many per hour. Costly requests count as several; see docs/operate.md.',
    480,
    [1, 1_000_000],
  ),
  MAX_STORED_MIB_PER_DAY: wholeNumber(
    'Maximum MiB that requests of one organization may store per day. Each change counts as the size of its body plus 2 KiB. Deleting the data later does not free the amount.',
    256,
    [1, 1_000_000],
  ),
  LOG_LEVEL: choice('Minimum log level.', 'info', [
    'trace',
    'debug',
    'info',
    'warn',
    'error',
    'fatal',
    'silent',
  ]),
  TRUST_PROXY: count(
    'Trust the X-Forwarded-* headers of a proxy, or of several proxies, each behind the other: their number. Set it only behind proxies that set or extend these headers. The address of a client is the one that the outermost of these proxies saw.',
    9,
  ),
  DATABASE_POOL_SIZE: wholeNumber(
    'Maximum connections of one process to DATABASE_URL. Without REDIS_URL, a third of them are for the queues.',
    12,
    [4, 500],
  ),
  MIN_INTERVAL_MINUTES: wholeNumber('Minimum interval of an export, in minutes.', 5, [1, 60]),
  MAX_JITTER_SECONDS: wholeNumber(
    "Maximum jitter in seconds added to a run's start, at most 5% of the interval. 0 turns it off.",
    300,
    [0, 3_600],
  ),
  WORKER_CONCURRENCY: wholeNumber(
    'Slots of one worker: the maximum number of runs that it executes at a time. Small runs do not count; see WORKER_SMALL_RUNS.',
    4,
    [1, 100],
  ),
  WORKER_SMALL_RUNS: wholeNumber(
    'Maximum number of small runs that one worker executes at a time, besides its slots; see docs/operate.md. Up to three eighths as many have a connection to the source. 0 means that small runs use slots like other runs.',
    24,
    [0, 500],
  ),
  WORKER_MEMORY_MB: wholeNumber(
    'Memory of one worker in MiB. The worker starts a run only if the run fits into it; see docs/operate.md.',
    576,
    [192, 1_048_576],
  ),
  MAX_ROW_MIB: optionalNumber(
    'Maximum size of a row in MiB. A run with a larger row fails with source.row_too_large. A worker refuses to start if four times this size does not fit into WORKER_MEMORY_MB. Previews have a fixed maximum of 1 MiB.',
    '64, or what fits into WORKER_MEMORY_MB',
    [1, 1_024],
  ),
  MAX_RUNS_PER_TENANT: wholeNumber(
    'Maximum runs of one project at a time. If the workers have four or more slots in total, one organization can never use the last slot.',
    20,
    [1, 10_000],
  ),
  LEASE_SECONDS: wholeNumber(
    'Seconds without a heartbeat after which a worker loses its run.',
    60,
    [2, 3_600],
  ),
  RETRY_MAX_ATTEMPTS: wholeNumber(
    'Maximum attempts of a run. If the last attempt fails, the run ends as FailedRetryable.',
    10,
    [1, 100],
  ),
  RETRY_BASE_SECONDS: wholeNumber(
    'Maximum wait in seconds before the second attempt. The maximum doubles with each further attempt, up to one hour. The actual wait is a random part of the maximum.',
    30,
    [0, 3_600],
  ),
  BACKFILL_CONCURRENCY: wholeNumber(
    'Maximum runs of one backfill at a time, unless the request sets another number. An export has at most one run more than this at a time.',
    2,
    [1, 100],
  ),
  SETTLE_TIMEOUT_SECONDS: wholeNumber(
    "Maximum seconds that a run waits until the source's clock has passed its interval, and until all transactions that may add rows to it have ended. After that, Sluice exports the interval as unsettled and re-checks it later.",
    300,
    [0, 86_400],
  ),
  LATE_LOOKBACK_HOURS: wholeNumber(
    'How many hours back Sluice re-checks completed intervals for late rows. Set it if clients set the timestamps. 0 re-checks only intervals whose transactions had not ended. look_back_hours of a model or of an export overrides it.',
    0,
    [0, 720],
  ),
  SHUTDOWN_GRACE_SECONDS: wholeNumber(
    'Maximum seconds between SIGTERM and the exit of a process. In this time it hands back its work.',
    25,
    [1, 600],
  ),
  ALLOWED_PRIVATE_ENDPOINTS: list(
    'Endpoints with private IP addresses that exports are allowed to use. A range such as 10.0.0.0/8 is refused: name each host.',
    {
      matches: /^((\*\.)?[\w-]+(\.[\w-]+)*\.?|\[[\da-f:.]+\])(:\d{1,5})?$/i,
      mustBe: 'host or host:port, such as 10.0.0.7:9000, minio, *.internal or [fd00::1]:9000',
    },
  ),
  ALLOW_AMBIENT_CREDENTIALS: flag(
    'Let exports without credentials use the AWS credentials of the process itself.',
    false,
  ),
  SMTP_URL: optionalText(
    'Mail server for notifications by e-mail, as `smtp://user:password@host:587` (with STARTTLS if the server supports it) or `smtps://…:465`. Set MAIL_FROM too. Without SMTP_URL, the API refuses e-mail targets.',
    {
      secret: true,
      matches: /^smtps?:\/\/[^\s/]+\/?$/,
      mustBe: 'an smtp:// or smtps:// address of a host',
    },
  ),
  MAIL_FROM: optionalText(
    'Sender of notifications by e-mail, as `sluice@example.com` or `Sluice <sluice@example.com>`.',
    {
      matches: /^([^<>@\r\n]+ )?<?[^\s<>@]+@[^\s<>@]+>?$/,
      mustBe: 'an e-mail address, with or without a name',
    },
  ),
  MAIL_RECIPIENTS: list(
    'Who may get notifications by e-mail: addresses and domains, such as `oncall@example.com,example.org`. All others use webhooks.',
    {
      matches: /^([^\s@<>]+@)?[\w-]+(\.[\w-]+)*$/,
      mustBe: 'addresses and domains, such as oncall@example.com or example.org',
    },
  ),
  VERIFY_SCHEDULE: optionalText(
    'Time of day in UTC, such as `03:00`, from which on workers verify each export once. A worker verifies one at a time, in 192 MiB of WORKER_MEMORY_MB, and begins none after six hours. The exports that are not reached come first the next time. Without it, nothing is verified by itself.',
    { matches: /^([01]\d|2[0-3]):[0-5]\d$/, mustBe: 'a time of day such as 03:00' },
  ),
  FILE_DESTINATION_ROOT: optionalText(
    'Folder to which File destinations write. Without it, the API refuses File destinations.',
  ),
  UPLOAD_PART_MIB: wholeNumber(
    'Size in MiB of the first parts of an upload. Later parts are larger.',
    8,
    [5, 512],
  ),
  HTTP_PROXY: optionalText(
    'HTTP proxy for connections to `http://` addresses of destinations and webhooks, for example `http://user:password@proxy:3128`. Sluice also reads `http_proxy`.',
    { secret: true, matches: /^https?:\/\//, mustBe: 'an http:// or https:// address' },
  ),
  HTTPS_PROXY: optionalText(
    'HTTP proxy for connections to `https://` addresses of destinations, STS and webhooks, and to the mail server. The proxy must refuse private addresses. Sluice also reads `https_proxy`.',
    { secret: true, matches: /^https?:\/\//, mustBe: 'an http:// or https:// address' },
  ),
  NO_PROXY: noProxyList(
    'Hosts that Sluice reaches without a proxy. A domain covers all names below it. A range covers addresses, not names. Hosts in ALLOWED_PRIVATE_ENDPOINTS never use a proxy. Sluice also reads `no_proxy`.',
  ),
  STS_ENDPOINT: optionalText(
    'STS endpoint for exports that use a role. Without it, Sluice uses the AWS endpoint of the region.',
    { matches: /^https?:\/\/[^\s/?#@]+\/?$/, mustBe: 'an http:// or https:// address' },
  ),
  UPLOAD_STALL_SECONDS: wholeNumber(
    'Seconds without progress after which Sluice aborts and retries an upload. After this time each request to a destination must also have moved 16 KiB per second.',
    60,
    [1, 3_600],
  ),
  LOG_RETENTION_DAYS: wholeNumber(
    'Number of days to keep log entries and the log of notifications.',
    30,
    [1, 3_650],
  ),
  RETENTION_DAYS: wholeNumber(
    'Number of days to keep finished runs, ticks, deleted exports and the record of who changed what.',
    365,
    [1, 36_500],
  ),
} as const satisfies Record<string, Setting<unknown>>;
