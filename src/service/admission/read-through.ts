import type { SourceSnapshot } from '../../rows/sources/source.ts';

/** Returns the snapshot with another way to read its rows: what `reads` makes of it. */
export function readThrough(
  snapshot: SourceSnapshot,
  reads: (snapshot: SourceSnapshot) => SourceSnapshot['read'],
): SourceSnapshot {
  const deletes = snapshot.readDeletes?.bind(snapshot);
  return {
    ...(deletes && { readDeletes: deletes }),
    columns: snapshot.columns,
    get totalCount() {
      return snapshot.totalCount;
    },
    snapshot: snapshot.snapshot,
    takenAt: snapshot.takenAt,
    sequence: snapshot.sequence,
    slices: snapshot.slices,
    projection: snapshot.projection,
    keyIndices: snapshot.keyIndices,
    typeChanges: snapshot.typeChanges,
    hasDays: snapshot.hasDays,
    showsKeys: snapshot.showsKeys,
    countRows: (signal) => snapshot.countRows(signal),
    keySet: () => snapshot.keySet(),
    readKeySet: (signal) => snapshot.readKeySet(signal),
    share: async (request, signal) => readThrough(await snapshot.share(request, signal), reads),
    close: () => snapshot.close(),
    read: reads(snapshot),
  };
}
