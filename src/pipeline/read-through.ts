import type { SourceSnapshot } from '../sources/source.ts';

/** The same snapshot, whose rows are read by `read`. */
export function readThrough(
  snapshot: SourceSnapshot,
  read: SourceSnapshot['read'],
): SourceSnapshot {
  return {
    columns: snapshot.columns,
    get totalCount() {
      return snapshot.totalCount;
    },
    snapshot: snapshot.snapshot,
    slices: snapshot.slices,
    projection: snapshot.projection,
    keyPlaces: snapshot.keyPlaces,
    typeChanges: snapshot.typeChanges,
    hasDays: snapshot.hasDays,
    countRows: (signal) => snapshot.countRows(signal),
    keySet: () => snapshot.keySet(),
    close: () => snapshot.close(),
    read,
  };
}
