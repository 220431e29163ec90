import { SluiceError } from '../../foundation/domain/errors.ts';
import { textOfJson } from '../../foundation/domain/row-block.ts';
import type { ReadColumn } from '../../rows/encoders/encoder.ts';
import { canonicalKey, joinKeys, splitKeys, textOfKeys } from '../../rows/pipeline/row-keys.ts';
import type { Source, SourceRequest } from '../../rows/sources/source.ts';

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
      for await (const block of snapshot.read(slice, signal)) {
        for (let row = 0; row < block.rowCount; row += 1) tell(textOfKeys(block, row));
      }
    }
    return { columns, rows: await snapshot.countRows(signal) };
  } finally {
    await snapshot.close();
  }
}

/** The key of a row, as `textOfKeys` gives it. @param fields as a source gives them for a request of `keys` */
function keyOfFields(columns: readonly ReadColumn[], fields: readonly (string | null)[]): string {
  return joinKeys(
    columns.map((column, place) => {
      const text = fields[place] ?? null;
      const plain = text !== null && column.type === 'as_json' ? textOfJson(text) : text;
      return plain === null ? null : canonicalKey(column, plain);
    }),
  );
}

const keysPerLookUp = 500;

/** Looks up rows of the files that the source no longer has in their interval. */
export interface LookUp {
  /** @returns those of the keys that the source has in another interval; null if that cannot be known */
  find(
    request: SourceRequest,
    columns: readonly ReadColumn[],
    keys: readonly string[],
  ): Promise<ReadonlySet<string> | null>;
}

/** A look-up may read a whole view: an export has a limited time for all of them. @param now milliseconds */
export function lookUpFor(
  source: Source,
  signal: AbortSignal,
  limitMs: number,
  now: () => number,
): LookUp {
  let leftMs = limitMs;
  return {
    async find(request, columns, keys) {
      const existing = new Set<string>();
      for (let from = 0; from < keys.length; from += keysPerLookUp) {
        if (leftMs <= 0) return null;
        const began = now();
        const texts = keys
          .slice(from, from + keysPerLookUp)
          .map((key) => splitKeys(key, columns.length));
        if (texts.some((key) => key === null)) return null;
        const rows = await source
          .findElsewhere(request, texts as readonly (readonly (string | null)[])[], signal)
          .catch(nullIfFinal);
        if (rows === null) return null;
        for (const fields of rows) existing.add(keyOfFields(columns, fields));
        leftMs -= now() - began;
      }
      return existing;
    },
  };
}

/** A key's type may have no equality, or may not be read from a text. A standby may end each read of other intervals. */
function nullIfFinal(error: unknown): null {
  if (!(error instanceof SluiceError)) throw error;
  if (!error.spec.retryable || error.code === 'source.recovery_conflict') return null;
  throw error;
}
