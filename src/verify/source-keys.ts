import { textOfJson } from '../domain/row-block.ts';
import type { ReadColumn } from '../encoders/encoder.ts';
import { canonicalKey, joinKeys } from '../pipeline/key-values.ts';
import type { Source, SourceRequest } from '../sources/source.ts';

export interface SourceRows {
  /** The key columns; none if the export does not include them. */
  readonly columns: readonly ReadColumn[];
  readonly rows: number;
}

/** Reports the keys that an interval's rows have in the source now. */
export async function readSourceKeys(
  source: Source,
  request: SourceRequest,
  signal: AbortSignal,
  tell: (key: string) => void,
): Promise<SourceRows> {
  const snapshot = await source.open({ ...request, select: 'keys' }, signal);
  try {
    const { columns } = snapshot;
    for (const slice of columns.length > 0 ? snapshot.slices : []) {
      for await (const { bytes, lengths, offsets, rowCount } of snapshot.read(slice, signal)) {
        for (let row = 0; row < rowCount; row += 1) {
          const fields = columns.map((column, place) => {
            const index = row * columns.length + place;
            const start = offsets[index] ?? 0;
            const length = lengths[index] ?? -1;
            if (length < 0) return null;
            const text = bytes.toString('utf8', start, start + length);
            const plain = column.type === 'as_json' ? textOfJson(text) : text;
            return plain === null ? null : canonicalKey(column, plain);
          });
          tell(joinKeys(fields));
        }
      }
    }
    return { columns, rows: await snapshot.countRows(signal) };
  } finally {
    await snapshot.close();
  }
}
