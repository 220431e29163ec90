const mebibyte = 1024 ** 2;

/** What the memory of a run depends on. */
export interface RunShape {
  readonly format: string;
  readonly compression: string | null;
  /** Of an upload's first parts; 0 if nothing is uploaded. */
  readonly partBytes: number;
  readonly partsInFlight: number;
}

/** What a worker's process takes beside its runs: Node, pools, and the code and heap once warm; measured. */
export const idleWorkerBytes = 150 * mebibyte;

/** Row blocks of the source on their way, and what is behind them on the socket. */
const sourceBytes = 8 * mebibyte;

/** Chunks of text and, if they are compressed, four blocks at a time with the codec's own memory. */
const textBytes = 4 * mebibyte;
const codecBytes: Readonly<Record<string, number>> = {
  gzip: 12 * mebibyte,
  zstd: 24 * mebibyte,
  brotli: 32 * mebibyte,
};

/** A row group held until it is whole, the pages of all columns and their dictionaries. */
const parquetBytes = 56 * mebibyte;

/**
 * The memory that a run may need: source + encoder + codec + (parts in flight + the one being filled) × part
 * size. Not in it: values larger than a few MiB, which are held whole, and the doubled parts of files
 * past 15 GiB.
 */
export function memoryBudget({ format, compression, partBytes, partsInFlight }: RunShape): number {
  const encoder = format === 'Parquet' ? parquetBytes : textBytes;
  const codec = format === 'Parquet' ? 0 : (codecBytes[compression ?? ''] ?? 0);
  const upload = partBytes === 0 ? 0 : (partsInFlight + 1) * partBytes;
  return sourceBytes + encoder + codec + upload;
}
