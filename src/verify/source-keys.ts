import type { Source, SourceRequest } from '../sources/source.ts';
import { joinKeys } from './file-keys.ts';

export interface SourceKeys {
  /** The key columns; none where the export does not hold them. */
  readonly names: readonly string[];
  readonly keys: readonly string[];
  readonly rows: number;
}

/** The keys of an interval's rows as the source has them now. */
export async function readSourceKeys(
  source: Source,
  request: SourceRequest,
  signal: AbortSignal,
): Promise<SourceKeys> {
  const snapshot = await source.open({ ...request, select: 'keys' }, signal);
  try {
    const names = snapshot.columns.map((column) => column.name);
    const keys: string[] = [];
    for (const slice of names.length > 0 ? snapshot.slices : []) {
      for await (const { bytes, columns, lengths, offsets, rowCount } of snapshot.read(
        slice,
        signal,
      )) {
        for (let row = 0; row < rowCount; row += 1) {
          const fields = columns.map((_, column) => {
            const index = row * columns.length + column;
            const start = offsets[index] ?? 0;
            return bytes.toString('utf8', start, start + (lengths[index] ?? 0));
          });
          keys.push(joinKeys(fields));
        }
      }
    }
    return { names, keys, rows: snapshot.totalCount };
  } finally {
    await snapshot.close();
  }
}
