/** What the files of one room may import, beside the room itself. */
export interface Room {
  /** Whole rooms, and single files of rooms (`sources/source.ts`: an interface file). */
  readonly from: readonly string[];
  /** The same, but for their types alone: nothing is left of the import at run time. */
  readonly types?: readonly string[];
  /** Packages; `node:*` is all that Node has. The absent `node:*` is what makes a room free of I/O. */
  readonly packages: readonly string[];
  readonly packageTypes?: readonly string[];
  /** Only of these rooms, only such names: `store` gives `api` what reads. */
  readonly names?: Readonly<Record<string, RegExp>>;
}

/** The interface files of the connectors. */
const interfaces = [
  'sources/source.ts',
  'transforms/transform.ts',
  'encoders/encoder.ts',
  'destinations/destination.ts',
];

/** Which rooms are on a floor of `src`, and which lower floors they use. `main` is one room. */
export const floors: Readonly<
  Record<string, { readonly rooms: readonly string[]; readonly uses: readonly string[] }>
> = {
  clients: {
    rooms: ['console', 'cli', 'quickstart'],
    uses: ['main', 'service', 'extensions', 'state', 'rows', 'foundation'],
  },
  main: { rooms: [], uses: ['service', 'extensions', 'state', 'rows', 'foundation'] },
  extensions: { rooms: ['iceberg', 'own-plugins'], uses: ['rows', 'foundation'] },
  service: {
    rooms: ['api', 'use-cases', 'worker', 'admission', 'scheduling', 'notifications', 'verify'],
    uses: ['state', 'rows', 'foundation'],
  },
  state: { rooms: ['store', 'queue', 'embedded-postgres'], uses: ['foundation'] },
  rows: {
    rooms: ['sources', 'query', 'transforms', 'encoders', 'destinations', 'changes', 'pipeline'],
    uses: ['foundation'],
  },
  foundation: { rooms: ['domain', 'config', 'telemetry', 'security', 'failpoints'], uses: [] },
};

/** The one file that looks up: the process for a first try starts the quickstart's S3 again. */
export const looksUp = 'main/run-all-in-one.ts';

/** The table of `src/README.md`: rooms under `src` and what each may import. */
export const rooms: Readonly<Record<string, Room>> = {
  // Of Node what an IP address is.
  domain: { from: [], packages: ['node:net', 'node:timers/promises'], packageTypes: ['luxon'] },
  failpoints: { from: [], packages: [] },
  scheduling: { from: ['domain'], packages: ['luxon'] },
  // The models file says what the domain calls a model.
  config: { from: ['domain'], packages: ['typebox', 'yaml', 'node:fs'] },
  telemetry: {
    from: ['domain'],
    packages: ['pino', 'prom-client', 'node:async_hooks', 'node:crypto'],
  },
  store: { from: ['domain'], packages: ['pg', 'node-pg-migrate', 'node:*'] },
  queue: {
    from: ['domain'],
    packages: ['node:timers/promises', 'bullmq', 'ioredis', '@bull-board/*'],
    // The caller's pool and server: BullMQ's PostgreSQL backend takes the one, bull-board the other.
    packageTypes: ['pg', 'fastify'],
  },
  query: { from: ['domain'], packages: ['libpg-query', 'pgsql-parser', 'node:v8'] },
  sources: { from: ['domain', 'query'], packages: ['pg', 'node:*'] },
  // Pure: of Node hashes, and what an IP address is.
  transforms: {
    from: ['domain'],
    packages: ['bowser', 'node:crypto', 'node:net', 'node:timers/promises'],
  },
  'own-plugins': {
    from: [
      'domain',
      'transforms/own-steps.ts',
      'transforms/text-writer.ts',
      'transforms/effort.ts',
      'transforms/json.ts',
      'transforms/transform.ts',
    ],
    types: ['transforms/step.ts'],
    packages: ['sucrase', 'node:*'],
    // The sandbox's own process loads it.
    packageTypes: ['acorn', 'astring'],
  },
  encoders: {
    from: ['domain'],
    // Files are read back with other programs' readers than those that wrote them.
    packages: ['snappy', '@mongodb-js/zstd', 'hyparquet', 'hyparquet-compressors', 'node:*'],
  },
  destinations: {
    from: ['domain', 'failpoints'],
    packages: [
      ...['@aws-sdk/client-s3', '@aws-sdk/client-sts', '@smithy/signature-v4', 'sax', 'typebox'],
      'node:*',
    ],
  },
  // It reads and writes by a destination: no I/O of its own. Of timers the waits between tries.
  iceberg: {
    from: ['domain', 'failpoints'],
    types: ['destinations/destination.ts', 'pipeline'],
    packages: [
      'node:crypto',
      'node:stream/consumers',
      'node:timers/promises',
      'node:util',
      'node:zlib',
    ],
  },
  // Of timers the turns of the event loop, no time. On the disk only files that a run reads back, or keys that do not fit into memory.
  changes: { from: ['domain', 'query', 'sources/source.ts'], packages: ['node:crypto'] },
  pipeline: {
    from: ['domain', 'failpoints', 'transforms', 'changes', ...interfaces],
    packages: [
      'node:crypto',
      'node:fs/promises',
      'node:os',
      'node:path',
      'node:stream/consumers',
      'node:timers/promises',
    ],
  },
  // Of timers the rests of a trial.
  'use-cases': {
    from: ['domain', 'scheduling', 'store', 'security', 'transforms'],
    types: ['sources/source.ts'],
    packages: ['node:crypto', 'node:timers/promises', 'node:util'],
  },
  // Its targets are reached through the filter of `security`.
  notifications: {
    from: ['domain', 'security/outbound-filter.ts'],
    packages: ['nodemailer', 'node:crypto', 'node:http', 'node:https', 'node:net'],
  },
  security: { from: ['domain'], packages: ['request-filtering-agent', 'node:*'] },
  verify: {
    from: [
      'domain',
      'store',
      'security',
      'changes/plan-element.ts',
      'pipeline/key-spool.ts',
      'pipeline/key-tally.ts',
      'pipeline/manifest.ts',
      'pipeline/partitioned-rows.ts',
      'pipeline/read-back.ts',
      'pipeline/row-keys.ts',
      ...interfaces,
    ],
    types: ['pipeline/render-interval.ts', 'pipeline/interval-job.ts', 'pipeline/table-format.ts'],
    packages: ['node:*'],
  },
  api: {
    from: ['domain', 'use-cases', 'store', 'security'],
    types: [...interfaces, 'transforms/step.ts'],
    packages: ['fastify', '@fastify/*', 'typebox', 'ajv', 'prom-client', 'node:*'],
    // What reads, and what keeps the books of HTTP itself: key use, rate limits, idempotency keys.
    names: {
      store:
        /^(find|list|count|average|is)[A-Z]|^(logLevels|installationId)$|^touchApiKey$|^reserveFromBudget$|IdempotencyKey$|^keepResponse$/,
    },
  },
  // Of a run's memory what plugins need. Of timers the turns and rests of organizations.
  admission: {
    from: ['domain', 'store', 'use-cases', 'transforms/own-steps.ts'],
    types: [...interfaces, 'pipeline/interval-job.ts'],
    packages: ['node:fs/promises', 'node:timers/promises', 'node:v8', 'node:vm'],
  },
  worker: {
    from: [
      'domain',
      'admission',
      'failpoints',
      'use-cases',
      'store',
      'queue',
      'pipeline',
      'security',
      'telemetry',
      'transforms',
    ],
    types: interfaces,
    packages: ['node:*'],
  },
  console: { from: [], packages: ['*'] },
  cli: {
    from: [
      'domain',
      'config',
      'store',
      'use-cases',
      'main',
      'quickstart',
      'embedded-postgres',
      'sources/index.ts',
      ...['queue/connection.ts', 'security', 'verify/finding.ts', 'verify/describe-result.ts'],
    ],
    types: ['verify/sums.ts', 'verify/verified-interval.ts', 'verify/verify-exports.ts'],
    packages: ['commander', 'yaml', 'node:*'],
  },
  // Its binaries are a package for each platform.
  'embedded-postgres': { from: ['*'], packages: ['*'] },
  quickstart: { from: ['*'], packages: ['*'] },
  main: { from: ['*'], packages: ['*'] },
};

/** A room of connectors: a folder each, none of which may know another. */
export interface ConnectorRoom {
  /** Files at the room's top that know the connectors; every other one is for the connectors to import. */
  readonly registries: readonly string[];
  /** Folders that are no connector but what connectors are built with. */
  readonly groundwork: readonly string[];
}

export const connectorRooms: Readonly<Record<string, ConnectorRoom>> = {
  sources: { registries: ['index.ts'], groundwork: [] },
  transforms: { registries: ['index.ts'], groundwork: [] },
  encoders: { registries: ['index.ts'], groundwork: ['codecs', 'text'] },
  destinations: { registries: ['index.ts'], groundwork: [] },
};

/** The only places where a thing may be named: a folder, or one file. */
export const places = {
  environment: ['config'],
  // The page is a program of its own, with the clock of the browser.
  clock: ['domain/clock.ts', 'console'],
  date: ['domain/clock.ts', 'domain/time.ts', 'console'],
  bullmq: ['queue'],
  pg: ['store', 'sources/postgres', 'embedded-postgres/start.ts'],
  any: [],
  'default-export': [],
} as const satisfies Record<string, readonly string[]>;

/** Types that the build writes outside of src. */
export const generatedTypes = ['../dist/api-schema.d.ts'];

/** The page checks statements by the script that customers run. */
export const checkerOfCustomers = '../client/check/sluice-check.mjs';

export const forbiddenFolders = ['utils', 'common', 'helpers', 'shared', 'misc'];

export const maxLines = 400;
