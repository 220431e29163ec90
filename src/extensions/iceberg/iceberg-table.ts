import { buffer } from 'node:stream/consumers';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { type DestinationConfig, readFileSettings } from '../../foundation/domain/file-settings.ts';
import { commonFolder } from '../../foundation/domain/key-template.ts';
import { stemOf } from '../../foundation/domain/object-keys.ts';
import type { ManifestFile } from '../../foundation/domain/receipt.ts';
import { fencesManifests } from '../../foundation/domain/store-traits.ts';
import type { TableField } from '../../foundation/domain/table-field.ts';
import type { Destination } from '../../rows/destinations/destination.ts';
import type {
  ExportTable,
  FoundTable,
  MadeFiles,
  OpenTable,
  TableAttempt,
  TableExport,
  TableFormat,
} from '../../rows/pipeline/table-format.ts';
import { ReadingBudget } from './avro.ts';
import { commitInterval, expireSnapshots, haveSameFiles } from './commit-interval.ts';
import {
  findInterval,
  generationIn,
  type LiveFile,
  readFiles,
  readManifests,
  type TableInterval,
} from './manifest-set.ts';
import { currentSnapshot, joinFields, ownNames, schemaOf } from './metadata.ts';
import { metadataFolder, type TableObjects, type TablePlace } from './table-objects.ts';
import { maxMetadataBytes, readNewest } from './versions.ts';

const dayMs = 86_400_000;

/** The address of an object at a destination, as other programs use it. */
type UriOf = (type: string, config: DestinationConfig, key: string) => string;

/** Apache Iceberg tables, for exports with `table_format: iceberg`. */
export function icebergTables(uriOf: UriOf): TableFormat {
  return {
    tableOf({ exportId, model, destination: { type, config } }: TableExport) {
      const { tableFormat, prefix, snapshotRetentionDays } = readFileSettings(config);
      if (tableFormat === null) return null;
      const place = {
        owner: exportId,
        folder: commonFolder(prefix, { table: model, batchExportId: exportId }),
        uri: (key: string) => uriOf(type, config, key),
      };
      return exportTable(place, snapshotRetentionDays * dayMs);
    },
  };
}

/** @param retentionMs how long the table keeps a snapshot that was replaced */
function exportTable(place: TablePlace, retentionMs: number): ExportTable {
  return {
    folder: place.folder,
    begin: (attempt) => beginInterval(place, retentionMs, attempt),
    async findHeld(destination, { interval, manifestKey }, keys, readNow, signal) {
      const objects = objectsOf(destination, signal);
      const confirm = async () => {};
      await expireSnapshots({ place, objects, retentionMs, signal, readNow, confirm });
      return new Set(
        await findHeld(place, objects, { stem: stemOf(manifestKey), ...interval }, keys),
      );
    },
    verify: (destination, files) => verifyTable(destination, place, files),
    findExisting: (destination, signal) => findTableAt(place, objectsOf(destination, signal)),
  };
}

async function beginInterval(
  place: TablePlace,
  retentionMs: number,
  attempt: TableAttempt,
): Promise<OpenTable> {
  const { destination, job, signal } = attempt;
  checkStore(destination);
  const interval: TableInterval = { stem: job.names.stem, ...job.interval };
  const read = () => findTable(place, objectsOf(destination, signal), interval);
  const { generation, fields } = await read();
  return {
    generation,
    checkColumns(columns) {
      joinFields(fields, job.encoding.tableFields?.(columns) ?? []);
    },
    async hasFiles(files: readonly ManifestFile[]) {
      const own = files.map(({ key, rows, bytes }) => ({ path: place.uri(key), rows, bytes }));
      return haveSameFiles((await read()).files, own);
    },
    commit: (made) => commitFiles(place, retentionMs, interval, attempt, made),
  };
}

async function commitFiles(
  place: TablePlace,
  retentionMs: number,
  interval: TableInterval,
  { destination, job, ports, signal }: TableAttempt,
  { generation, files, metrics, columns }: MadeFiles,
): Promise<void> {
  const { encoding, attempt, mayBeOvertaken, mode } = job;
  const isFirst = generation === 1 && attempt === 1 && !mayBeOvertaken;
  await commitInterval(
    {
      place,
      objects: objectsOf(destination, signal, ports),
      retentionMs,
      signal,
      readNow: () => ports.readNow(),
      confirm: () => ports.lease.extend(true),
    },
    {
      ...interval,
      generation,
      files: files.map((file) => ({ ...file, columns: metrics.get(file.key) ?? [] })),
      fields: encoding.tableFields?.(columns) ?? [],
      isWhole: mode === 'snapshot',
      isSealed: files.length === 0 && !isFirst,
      mayHaveLeft: attempt > 1 || mayBeOvertaken,
    },
  );
}

/** The names of versions begin so: `v12`, and those of catalogs `00012-<id>`. */
const firstLetters = ['v', '0'];

/** A listing may be without end. */
const maxListed = 1_000;

/** Null if there is no table. @throws SluiceError */
async function findTableAt(
  place: Pick<TablePlace, 'folder'>,
  objects: Pick<TableObjects, 'list' | 'read'>,
): Promise<FoundTable | null> {
  for (const letter of firstLetters) {
    let listed = 0;
    for await (const { key } of objects.list(metadataFolder(place) + letter)) {
      listed += 1;
      if (listed > maxListed) break;
      if (!key.endsWith('.metadata.json')) continue;
      const object = await objects.read(key, maxMetadataBytes);
      return { key, owner: object && ownerIn(object.bytes) };
    }
  }
  return null;
}

/** Not parsed: the bytes are anyone's, and may be many. */
function ownerIn(bytes: Buffer): string | null {
  const name = `"${ownNames.owner}":"`;
  const at = bytes.indexOf(name);
  const text = at < 0 ? '' : bytes.toString('latin1', at + name.length, at + name.length + 36);
  return /^[0-9a-f-]{36}$/.test(text) ? text : null;
}

const maxNamed = 20;

async function verifyTable(
  destination: Destination,
  place: TablePlace,
  files: Iterable<Pick<ManifestFile, 'key' | 'rows' | 'bytes'>>,
): Promise<readonly string[]> {
  const expected = new Map([...files].map((file) => [place.uri(file.key), file]));
  const table = await readTable(place, objectsOf(destination)).catch((error: unknown) => {
    if (error instanceof SluiceError && !error.spec.retryable) return error;
    throw error;
  });
  if (table instanceof SluiceError) return [`the Iceberg table: ${table.message}`];
  const faults = table.faults.map((fault) => `the Iceberg table: ${fault}`);
  // Files that could not be read would be missing below.
  if (faults.length > 0) return faults.slice(0, maxNamed);
  for (const [path, { rows, bytes }] of expected) {
    const file = table.current.get(path);
    if (!file) faults.push(`${path} is not in the Iceberg table`);
    else if (file.rows !== rows || file.bytes !== bytes) {
      const said = `${file.rows} rows and ${file.bytes} bytes`;
      faults.push(`${path} has ${said} in the Iceberg table, ${rows} and ${bytes} in its manifest`);
    }
  }
  for (const path of table.current.keys()) {
    if (!expected.has(path))
      faults.push(`${path} is in the Iceberg table and in no current manifest`);
  }
  const root = place.uri('');
  for (const [path, { bytes }] of table.earlier) {
    const stat = await destination.statFile(path.slice(root.length));
    if (stat?.bytes === bytes) continue;
    faults.push(`${path}, which an earlier snapshot of the Iceberg table has, is missing`);
  }
  return faults.slice(0, maxNamed);
}

type NamedFile = Pick<LiveFile, 'path' | 'rows' | 'bytes'>;

interface ReadTable {
  readonly current: ReadonlyMap<string, NamedFile>;
  readonly earlier: ReadonlyMap<string, NamedFile>;
  readonly faults: readonly string[];
}

/** For all lists and manifests of a table: 2,000 snapshots of 200 manifests each have 400,000 rows. */
const maxBytes = 512 * 1024 ** 2;
const maxRows = 2_000_000;

/** A table with a file per hour has so many after 34 years. */
const maxFiles = 300_000;

/** More say nothing new. */
const maxFaults = 20;

/** Reads every snapshot's manifests, each once. What exceeds the bounds counts as a fault. */
export async function readTable(place: TablePlace, objects: TableObjects): Promise<ReadTable> {
  const current = new Map<string, NamedFile>();
  const earlier = new Map<string, NamedFile>();
  const faults: string[] = [];
  const tell = (error: unknown) => {
    if (!(error instanceof SluiceError) || error.code !== 'destination.table_damaged') throw error;
    faults.push(error.detail ?? error.message);
  };
  const { table } = (await readNewest(place, objects).catch(tell)) ?? { table: null };
  if (!table) return { current, earlier, faults };
  const newest = currentSnapshot(table);
  if (newest === null && table.snapshots.length > 0) faults.push('the current snapshot is missing');
  const seen = new Set<string>();
  const budget = new ReadingBudget(maxBytes, maxRows);
  for (const snapshot of [...table.snapshots].reverse()) {
    const files = snapshot === newest ? current : earlier;
    if (faults.length >= maxFaults) break;
    for (const info of (await readManifests(place, objects, snapshot, budget).catch(tell)) ?? []) {
      if (seen.has(info.path)) continue;
      seen.add(info.path);
      const listed = (await readFiles(place, objects, info, budget).catch(tell)) ?? [];
      if (current.size + earlier.size + listed.length > maxFiles) {
        faults.push(`it names more than ${maxFiles} files`);
        return { current, earlier, faults };
      }
      for (const { path, rows, bytes } of listed) {
        const file = { path, rows, bytes };
        if (files === current && files.has(path) && faults.length < maxFaults) {
          faults.push(`${path} is there twice`);
        }
        if (!current.has(file.path)) files.set(file.path, file);
      }
    }
  }
  return { current, earlier, faults };
}

interface TableState {
  /** The latest of its files; 0 if there is none. */
  readonly generation: number;
  readonly files: readonly LiveFile[];
  readonly fields: readonly TableField[];
}

/** @throws SluiceError if the export cannot write the table */
async function findTable(
  place: TablePlace,
  objects: TableObjects,
  interval: TableInterval,
): Promise<TableState> {
  const { table } = await readNewest(place, objects);
  if (!table) return { generation: 0, files: [], fields: [] };
  const { own } = await findInterval(place, objects, currentSnapshot(table), interval);
  const generation = Math.max(0, ...own.map(({ path }) => generationIn(path)));
  return { generation, files: own, fields: schemaOf(table).fields };
}

/** The files of an interval that a snapshot of the table needs. */
export async function findHeld(
  place: TablePlace,
  objects: TableObjects,
  interval: TableInterval,
  keys: readonly string[],
): Promise<readonly string[]> {
  const { table } = await readNewest(place, objects);
  if (!table) return [];
  const { own } = await findInterval(place, objects, currentSnapshot(table), interval);
  const live = new Set(own.map(({ path }) => path));
  if (table.properties[ownNames.whole] !== undefined) {
    // Each snapshot has files of the interval that it is about, and no others.
    const newest = Math.max(
      0,
      ...table.snapshots
        .filter(({ summary }) => summary[ownNames.interval] === interval.stem)
        .map(({ summary }) => Number(summary[ownNames.generation])),
    );
    return keys.filter((key) => live.has(place.uri(key)) || generationIn(key) <= newest);
  }
  // The first snapshot has none before it that needs what it has removed.
  const generations = new Set(
    table.snapshots
      .slice(1)
      .filter(({ summary }) => summary[ownNames.interval] === interval.stem)
      .flatMap(({ summary }) => (summary[ownNames.replaced] ?? '0').split(',').map(Number)),
  );
  return keys.filter((key) => live.has(place.uri(key)) || generations.has(generationIn(key)));
}

/** For what nothing needs at once. A store may answer with any number of empty pages. */
const listPatienceMs = 60_000;

/** A table at a destination. @param run that writes */
export function objectsOf(
  destination: Destination,
  signal?: AbortSignal,
  run?: Pick<TableAttempt['ports'], 'lease' | 'journal'>,
): TableObjects {
  return {
    async read(key, maxBytes) {
      const options = { maxBytes, ...(signal && { signal }) };
      const object = await destination.readFile(key, options).catch(nameRights);
      return object && { bytes: await buffer(object.body), etag: object.etag };
    },
    async put(key, bytes, expected) {
      try {
        const options = {
          confirm: refuse,
          signal,
          ...(run && { lease: run.lease, journal: run.journal }),
        };
        await destination.commitManifest(key, bytes, expected, options);
        return true;
      } catch (error) {
        if (error instanceof SluiceError && error.code === 'destination.conflict') return false;
        throw error;
      }
    },
    list: (prefix) => {
      const limit = AbortSignal.timeout(listPatienceMs);
      return destination.listFiles(prefix, signal ? AbortSignal.any([signal, limit]) : limit);
    },
    ...(destination.holds && { holds: destination.holds }),
    remove: (keys) => destination.deleteFiles(keys, signal),
  };
}

const conditions =
  'table_format iceberg needs a store that supports conditional writes (If-None-Match and If-Match on PutObject)';

/** An unconditional put could replace the version of another writer. */
async function refuse(): Promise<void> {
  throw new SluiceError('destination.invalid_config', `${conditions}, and this one does not`);
}

function nameRights(error: unknown): never {
  if (!(error instanceof SluiceError) || error.code !== 'destination.access_denied') throw error;
  const detail =
    'an Iceberg table needs permission to read and list what is below its prefix (s3:GetObject, s3:ListBucket)';
  throw new SluiceError('destination.access_denied', detail, error);
}

/** @throws SluiceError `destination.invalid_config` if two writers of the table could overwrite each other's versions */
function checkStore({ traits }: Pick<Destination, 'traits'>): void {
  if (traits === null) {
    const detail = `${conditions}. It could not be probed: allow the credentials to write and delete objects below the prefix`;
    throw new SluiceError('destination.invalid_config', detail);
  }
  if (!fencesManifests(traits)) {
    const detail = `${conditions}, and this one does not`;
    throw new SluiceError('destination.invalid_config', detail);
  }
}
