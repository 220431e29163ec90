import { icebergTables } from '../../src/extensions/iceberg/iceberg-table.ts';
import type { ExportTable } from '../../src/rows/pipeline/table-format.ts';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Destination } from '../../src/rows/destinations/destination.ts';
import { fileDefinition } from '../../src/rows/destinations/file/definition.ts';
import {
  type DestinationConfig,
  readFileSettings,
} from '../../src/foundation/domain/file-settings.ts';
import { keyNames, usualFileName } from '../../src/foundation/domain/file-name.ts';
import { manifestKey } from '../../src/foundation/domain/object-keys.ts';
import { joinConnectors } from '../../src/main/connectors.ts';
import { type ExportedInterval, exportInterval } from '../../src/rows/pipeline/export-interval.ts';
import type {
  IntervalJob,
  IntervalSource,
  RunPorts,
} from '../../src/rows/pipeline/interval-job.ts';
import type {
  CommitIntent,
  CurrentReceipt,
  IntervalResult,
} from '../../src/foundation/domain/receipt.ts';
import { makeSigningKey, signWith } from '../../src/foundation/security/signing-keys.ts';
import { decodeManifest, type Manifest } from '../../src/rows/pipeline/manifest.ts';
import type { ReadRow } from '../../src/rows/encoders/encoder.ts';
import { madeBy, readDeliveredKeys } from '../../src/rows/pipeline/read-back.ts';
import { SpoolFolder } from '../../src/rows/pipeline/key-spool.ts';
import { createPostgresSource } from '../../src/rows/sources/index.ts';
import type { Source } from '../../src/rows/sources/source.ts';
import {
  contextWith,
  keysUnder,
  owner,
  readAll,
  recordingJournal,
} from '../conformance/destination-suite.ts';
import { createEmptyDatabase, type TestDatabase } from './database.ts';
import { folderOfTest } from './own-folder.ts';
import { openStore } from './s3-destination.ts';
import { createEvents, eventsRequest, insertEvents } from './source-tables.ts';
import { testSecrets } from './test-secrets.ts';

export const team = 1;
const start = '2024-03-01T00:00:00Z';
const request = eventsRequest(team, start, '2024-03-01T01:00:00Z');
/** Of the manifest of every job here. */
export const manifestPath = manifestKey(keyNames('p', usualFileName, request.interval));

/** The events of one hour in a real PostgreSQL, to be exported to a real destination. */
export interface IntervalBench {
  readonly database: TestDatabase;
  readonly source: Source;
  addEvents(count: number): Promise<void>;
  drop(): Promise<void>;
}

export async function openIntervalBench(events: number): Promise<IntervalBench> {
  const database = await createEmptyDatabase();
  await database.pool.query(createEvents);
  const addEvents = (count: number) =>
    insertEvents(database.pool, { team, start, count, everyMs: 1_000 });
  await addEvents(events);
  return {
    database,
    source: createPostgresSource({ connectionString: database.url, keepConnectionMs: 5_000 }),
    addEvents,
    drop: () => database.drop(),
  };
}

export interface OpenedDestination {
  readonly destination: Destination;
  close(): Promise<void>;
}

/** Destinations that keep files, each empty when it is opened. */
export const openedBy: Readonly<Record<'File' | 'S3', () => Promise<OpenedDestination>>> = {
  File: async () => {
    const root = await mkdtemp(join(tmpdir(), 'sluice-file-'));
    const context = contextWith({ fileDestinationRoot: root });
    return {
      destination: fileDefinition.open({ directory: 'acme' }, context, owner),
      close: () => rm(root, { recursive: true, force: true }),
    };
  },
  S3: () => openStore(),
};

const plugins = joinConnectors(
  () => {
    throw new Error('the source is given');
  },
  contextWith({}),
  testSecrets(),
);

export const encodingOf = (config: DestinationConfig) =>
  plugins.encodingOf(readFileSettings(config));

/** Signs in tests of the pipeline. */
const benchKey = makeSigningKey(null, '2026-01-01T00:00:00.000000Z').key;

/** The first attempt of the first run of an hour. */
export function firstJob(changes: Partial<IntervalJob> = {}): IntervalJob {
  return {
    exportId: '00000000-0000-4000-8000-000000000001',
    runId: randomUUID(),
    attempt: 1,
    purpose: 'whole',
    mode: 'append',
    dropsMissing: true,
    readRows: plugins.readRows,
    interval: request.interval,
    request,
    names: keyNames('p', usualFileName, request.interval),
    encoding: encodingOf({ file_format: 'JSONLines' }),
    chain: null,
    withoutRows: plugins.withoutRows,
    maxFileBytes: null,
    partitionBy: [],
    writesManifest: true,
    onRejected: 'warn',
    generation: 1,
    era: 'era',
    sign: signWith(benchKey),
    current: null,
    formerManifests: [],
    intent: null,
    mayBeOvertaken: false,
    begunManifests: [],
    ...changes,
  };
}

/** The run after a recorded one: its receipt is current, its generation is used up. */
export function jobAfter(
  before: IntervalJob,
  { result }: ExportedInterval,
  changes: Partial<IntervalJob> = {},
): IntervalJob {
  const runId = randomUUID();
  const current = receiptOf(result);
  return { ...before, runId, generation: result.generation + 1, current, ...changes };
}

/** What our record keeps of a commit. */
export function receiptOf(result: IntervalResult): CurrentReceipt {
  const { snapshot, settled, pending, keyDigest: digest, keyCount: count } = result;
  return { ...result, proof: { snapshot, settled, pending, digest, count } };
}

/** What a run asked, and the answers, while it was exported. */
export interface Attempt {
  /** In order: `reading`, `commit`, `lease`, `generation 1`. */
  readonly asked: readonly string[];
  readonly intent: CommitIntent | null;
  readonly uploads: ReturnType<typeof recordingJournal>;
  readonly exported: Promise<ExportedInterval>;
}

/** A source that opens its snapshots in another way. */
export const openedOtherwise = (source: Source, open: Source['open']): IntervalSource => ({
  settle: (...asked) => source.settle(...asked),
  describe: (...asked) => source.describe(...asked),
  readSequence: (...asked) => source.readSequence(...asked),
  open,
});

/** Exports an interval. `ports` replaces answers of the run's own side. */
export function attempt(
  { source }: { readonly source: IntervalSource },
  destination: Destination,
  job: IntervalJob,
  {
    signal = new AbortController().signal,
    ...ports
  }: Partial<RunPorts> & { signal?: AbortSignal } = {},
): Attempt {
  const asked: string[] = [];
  const uploads = recordingJournal();
  const made: { intent: CommitIntent | null } = { intent: null };
  const exported = exportInterval(
    job,
    source,
    destination,
    {
      journal: uploads.journal,
      progressed: async () => {},
      lease: {
        holds: () => true,
        extend: async (always) => {
          if (always) asked.push('lease');
        },
      },
      raiseGeneration: async (floor) => {
        asked.push(`generation above ${floor}`);
        return floor + 1;
      },
      readElements: async function* () {},
      readNow: async () => Date.now(),
      knowsCommit: async () => true,
      withdraw: async (keys) => void asked.push(`withdraw ${keys.join()}`),
      log: () => {},
      logOfPlugin: () => {},
      at: (step) => {
        if (step === 'first_row') asked.push('reading');
      },
      ...ports,
      confirmCommit: async (intent) => {
        asked.push('commit');
        made.intent = intent;
        await ports.confirmCommit?.(intent);
      },
    },
    signal,
  );
  return {
    asked,
    uploads,
    exported,
    get intent() {
      return made.intent;
    },
  };
}

export async function readManifest(destination: Destination): Promise<Manifest> {
  const manifest = await decodeManifest(
    (await readAll(destination, manifestPath)) ?? Buffer.alloc(0),
  );
  if (!manifest) throw new Error('there is no manifest');
  return manifest;
}

/** The keys that the files of a result have, each as often as they have it. */
export async function deliveredKeys(
  destination: Destination,
  job: IntervalJob,
  { files, rejectedFiles, recipe }: ExportedInterval['result'],
): Promise<readonly string[]> {
  const folder = new SpoolFolder();
  const keys: string[] = [];
  const { signal } = new AbortController();
  const reading = { destination, readRows: job.readRows, folder, signal };
  const columns = [{ name: 'uuid', type: 'uuid' as const }];
  const delivered = { files, rejectedFiles, recipe };
  const fault = await readDeliveredKeys(reading, delivered, columns, (key) => {
    keys.push(key);
    return undefined;
  });
  await folder.remove();
  if (fault !== null) throw new Error(fault);
  return keys;
}

/** Each row of the files of a result with the key of its file, in the order of the files; rejected ones last. */
export async function rowsIn(
  destination: Destination,
  { readRows }: Pick<IntervalJob, 'readRows'>,
  { files, rejectedFiles, recipe }: ExportedInterval['result'],
  columns: Parameters<IntervalJob['readRows']>[2],
) {
  const file = join(folderOfTest(), 'file');
  const rows: { readonly key: string; readonly row: ReadRow }[] = [];
  for (const [made, by] of [
    [files, madeBy(recipe)],
    [rejectedFiles, 'rejected'],
  ] as const) {
    for (const { key } of made) {
      await writeFile(file, (await readAll(destination, key)) ?? '');
      for await (const row of readRows(file, by, columns)) rows.push({ key, row });
    }
  }
  return rows;
}

/** The lines of the files that the manifest names. */
export async function countLines(destination: Destination): Promise<number> {
  let lines = 0;
  for (const { key } of (await readManifest(destination)).files) {
    lines += (await readAll(destination, key))?.toString().split('\n').slice(0, -1).length ?? 0;
  }
  return lines;
}

export const readableKeys = (destination: Destination) => keysUnder(destination, 'p/');

/** The Iceberg table of an export whose files are below `p/` of a bucket. */
export function tableBelow(bucket: string, exportId: string): ExportTable {
  const tables = icebergTables((_, __, key) => `s3://${bucket}/${key}`);
  const config = { prefix: 'p', table_format: 'iceberg' };
  const table = tables.tableOf({ exportId, model: 'events', destination: { type: 'S3', config } });
  if (!table) throw new Error('the settings ask for no table');
  return table;
}
