import { SluiceError } from '../../foundation/domain/errors.ts';
import { ReadingBudget } from './avro-read.ts';
import { type LiveFile, readFiles, readManifests } from './manifest-set.ts';
import { currentSnapshot } from './metadata.ts';
import type { TableObjects, TablePlace } from './table-objects.ts';
import { readNewest } from './versions.ts';

/** A data file that a table names. */
type NamedFile = Pick<LiveFile, 'path' | 'rows' | 'bytes'>;

/** A table, read whole. */
export interface ReadTable {
  /** The files of the current snapshot, by path. */
  readonly current: ReadonlyMap<string, NamedFile>;
  /** The files of earlier snapshots alone. */
  readonly earlier: ReadonlyMap<string, NamedFile>;
  /** What cannot be read. */
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
  const known = new Set<string>();
  const budget = new ReadingBudget(maxBytes, maxRows);
  for (const snapshot of [...table.snapshots].reverse()) {
    const files = snapshot === newest ? current : earlier;
    if (faults.length >= maxFaults) break;
    for (const info of (await readManifests(place, objects, snapshot, budget).catch(tell)) ?? []) {
      if (known.has(info.path)) continue;
      known.add(info.path);
      const found = (await readFiles(place, objects, info, budget).catch(tell)) ?? [];
      if (current.size + earlier.size + found.length > maxFiles) {
        faults.push(`it names more than ${maxFiles} files`);
        return { current, earlier, faults };
      }
      for (const { path, rows, bytes } of found) {
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
