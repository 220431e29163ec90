import { SluiceError } from '../../domain/errors.ts';
import { type LiveFile, readFiles, readManifests } from './manifest-set.ts';
import { currentSnapshot } from './metadata.ts';
import type { TableObjects, TablePlace } from './table-objects.ts';
import { readNewest } from './versions.ts';

/** A table, read whole. */
export interface ReadTable {
  /** Of the current snapshot, by path. */
  readonly current: ReadonlyMap<string, LiveFile>;
  /** Of earlier snapshots alone. */
  readonly earlier: ReadonlyMap<string, LiveFile>;
  /** What cannot be read. */
  readonly faults: readonly string[];
}

/** Reads every snapshot's manifests, each once. */
export async function readTable(place: TablePlace, objects: TableObjects): Promise<ReadTable> {
  const current = new Map<string, LiveFile>();
  const earlier = new Map<string, LiveFile>();
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
  for (const snapshot of [...table.snapshots].reverse()) {
    const files = snapshot === newest ? current : earlier;
    for (const info of (await readManifests(place, objects, snapshot).catch(tell)) ?? []) {
      if (known.has(info.path)) continue;
      known.add(info.path);
      for (const file of (await readFiles(place, objects, info).catch(tell)) ?? []) {
        if (files === current && files.has(file.path)) faults.push(`${file.path} is there twice`);
        if (!current.has(file.path)) files.set(file.path, file);
      }
    }
  }
  return { current, earlier, faults };
}
