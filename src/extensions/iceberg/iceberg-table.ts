import type { DestinationConfig } from '../../foundation/domain/file-settings.ts';
import { readFileSettings } from '../../foundation/domain/file-settings.ts';
import { commonFolder } from '../../foundation/domain/key-template.ts';
import { stemOf } from '../../foundation/domain/object-keys.ts';
import type { ManifestFile } from '../../rows/pipeline/manifest.ts';
import type {
  ExportTable,
  MadeFiles,
  OpenTable,
  TableAttempt,
  TableExport,
  TableFormat,
} from '../../rows/pipeline/table-format.ts';
import { commitInterval, expireSnapshots, haveSameFiles } from './commit-interval.ts';
import { findTableAt } from './find-table.ts';
import { findHeld, findTable } from './held-files.ts';
import type { TableInterval } from './manifest-set.ts';
import { checkStore, objectsOf } from './objects-of.ts';
import { joinFields } from './schema.ts';
import type { TablePlace } from './table-objects.ts';
import { verifyTable } from './verify-table.ts';

const dayMs = 86_400_000;

/** The address of an object at a destination, as other programs use it. */
export type UriOf = (type: string, config: DestinationConfig, key: string) => string;

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
      const wanted = files.map(({ key, rows, bytes }) => ({ path: place.uri(key), rows, bytes }));
      return haveSameFiles((await read()).files, wanted);
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
  const { encoding, attempt, mayBeOvertaken } = job;
  const isFirst = generation === 1 && attempt === 1 && !mayBeOvertaken;
  await commitInterval(
    {
      place,
      objects: objectsOf(destination, signal, ports),
      retentionMs,
      signal,
      readNow: () => ports.readNow(),
      confirm: () => ports.confirmLease(),
    },
    {
      ...interval,
      generation,
      files: files.map((file) => ({ ...file, columns: metrics.get(file.key) ?? [] })),
      fields: encoding.tableFields?.(columns) ?? [],
      isSealed: files.length === 0 && !isFirst,
      mayHaveLeft: attempt > 1 || mayBeOvertaken,
    },
  );
}
