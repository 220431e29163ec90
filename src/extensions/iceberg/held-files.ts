import type { TableField } from '../../foundation/domain/table-field.ts';
import { findInterval, generationIn, type LiveFile, type TableInterval } from './manifest-set.ts';
import { currentSnapshot, ownNames, schemaOf } from './metadata.ts';
import type { TableObjects, TablePlace } from './table-objects.ts';
import { readNewest } from './versions.ts';

/** The files of an interval in a table. */
export interface TableState {
  /** The latest of its files; 0 if there is none. */
  readonly generation: number;
  readonly files: readonly LiveFile[];
  /** The table's columns. */
  readonly fields: readonly TableField[];
}

/** @throws SluiceError if the export cannot write the table */
export async function findTable(
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
