import { buffer } from 'node:stream/consumers';
import type { ColumnMetrics } from '../../foundation/domain/column-metrics.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import type { KeyNames } from '../../foundation/domain/file-name.ts';
import { stemOf } from '../../foundation/domain/object-keys.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import { fencesManifests } from '../../foundation/domain/store-traits.ts';
import type { DataInterval, Instant } from '../../foundation/domain/time.ts';
import type { Destination, PutLease } from '../destinations/destination.ts';
import {
  commitInterval,
  expireSnapshots,
  haveSameFiles,
} from '../table-formats/iceberg/commit-interval.ts';
import { findHeld, findTable, type TableState } from '../table-formats/iceberg/held-files.ts';
import type { TableInterval } from '../table-formats/iceberg/manifest-set.ts';
import { joinFields } from '../table-formats/iceberg/schema.ts';
import type { TableObjects, TablePlace } from '../table-formats/iceberg/table-objects.ts';
import type { Delivery } from './interval-attempt.ts';
import type { IntervalJob, IntervalTable } from './interval-job.ts';
import type { ManifestFile } from './manifest.ts';

/** For what nothing needs at once. A store may answer with any number of empty pages. */
const listPatienceMs = 60_000;

/** A table at a destination. @param lease of the run that writes */
export function objectsOf(
  destination: Destination,
  signal?: AbortSignal,
  lease?: PutLease,
): TableObjects {
  return {
    async read(key, maxBytes) {
      const options = { maxBytes, ...(signal && { signal }) };
      const found = await destination.readFile(key, options).catch(nameRights);
      return found && { bytes: await buffer(found.body), etag: found.etag };
    },
    async put(key, bytes, expected) {
      try {
        const options = { confirm: refuse, signal, ...(lease && { lease }) };
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
export function checkStore({ traits }: Pick<Destination, 'traits'>): void {
  if (traits === null) {
    const detail = `${conditions}. It could not be probed: allow the credentials to write and delete objects below the prefix`;
    throw new SluiceError('destination.invalid_config', detail);
  }
  if (!fencesManifests(traits)) {
    const detail = `${conditions}, and this one does not`;
    throw new SluiceError('destination.invalid_config', detail);
  }
}

export function tablePlace(
  exportId: string,
  { folder, uri }: Pick<IntervalTable, 'folder' | 'uri'>,
): TablePlace {
  return { owner: exportId, folder, uri };
}

function tableInterval({ stem }: KeyNames, { start, end }: DataInterval): TableInterval {
  return { stem, start, end };
}

/**
 * What the export's table has of the interval; null if the export has no table.
 *
 * @throws SluiceError if the table cannot be written by this export
 */
export async function findTableState(
  destination: Destination,
  { exportId, table, names, interval }: IntervalJob,
  signal: AbortSignal,
): Promise<TableState | null> {
  if (!table) return null;
  checkStore(destination);
  const objects = objectsOf(destination, signal);
  return findTable(tablePlace(exportId, table), objects, tableInterval(names, interval));
}

/** Before rows are read: @throws SluiceError `destination.table_conflict` if they do not fit the table */
export function checkColumns(
  state: TableState | null,
  { encoding }: Pick<IntervalJob, 'encoding'>,
  columns: readonly Column[],
): void {
  if (state) joinFields(state.fields, encoding.tableFields?.(columns) ?? []);
}

/** Whether the table, if there is one, has exactly these files of the interval. */
export async function isInTable(
  destination: Destination,
  job: IntervalJob,
  files: readonly ManifestFile[],
  signal: AbortSignal,
): Promise<boolean> {
  const state = await findTableState(destination, job, signal);
  if (!state || !job.table) return true;
  const { uri } = job.table;
  const wanted = files.map(({ key, rows, bytes }) => ({ path: uri(key), rows, bytes }));
  return haveSameFiles(state.files, wanted);
}

interface MadeFiles {
  readonly generation: number;
  readonly files: readonly ManifestFile[];
  /** By key. */
  readonly metrics: ReadonlyMap<string, readonly ColumnMetrics[]>;
  readonly columns: readonly Column[];
}

/** Makes the files those of the interval in the export's table, if it has one. */
export async function commitTable(
  { destination, job, ports, signal }: Delivery,
  { generation, files, metrics, columns }: MadeFiles,
): Promise<void> {
  const { table, encoding, exportId, names, interval, attempt, mayBeOvertaken } = job;
  if (!table) return;
  const isFirst = generation === 1 && attempt === 1 && !mayBeOvertaken;
  await commitInterval(
    {
      place: tablePlace(exportId, table),
      objects: objectsOf(destination, signal, ports.lease),
      retentionMs: table.retentionMs,
      signal,
      readNow: () => ports.readNow(),
      confirm: () => ports.confirmLease(),
    },
    {
      ...tableInterval(names, interval),
      generation,
      files: files.map((file) => ({ ...file, columns: metrics.get(file.key) ?? [] })),
      fields: encoding.tableFields?.(columns) ?? [],
      isSealed: files.length === 0 && !isFirst,
      mayHaveLeft: attempt > 1 || mayBeOvertaken,
    },
  );
}

/** The interval of a commit whose older files are to be removed. */
interface TableCommit {
  readonly exportId: string;
  readonly interval: DataInterval;
  readonly manifestKey: string | null;
  readonly table?: IntervalTable | null;
}

/** Which of an interval's files a snapshot of the export's table needs, after those that are due have expired. */
export async function findHeldFiles(
  destination: Destination,
  { exportId, interval, manifestKey, table }: TableCommit,
  keys: readonly string[],
  readNow: () => Promise<Instant>,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  if (!table || manifestKey === null) return new Set();
  const place = tablePlace(exportId, table);
  const objects = objectsOf(destination, signal);
  const { retentionMs } = table;
  const confirm = async () => {};
  await expireSnapshots({ place, objects, retentionMs, signal, readNow, confirm });
  return new Set(await findHeld(place, objects, { stem: stemOf(manifestKey), ...interval }, keys));
}
