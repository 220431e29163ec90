const mebibyte = 1024 ** 2;

/** What the memory of a run depends on. */
export interface RunShape {
  readonly transforms: boolean;
  /** What the encoder and its compression may hold. */
  readonly encoderBytes: number;
  /** Of an upload's first parts; 0 if nothing is uploaded. */
  readonly partBytes: number;
  readonly partsInFlight: number;
}

/** Memory of a worker's process without runs: Node, pools, and the code and heap once warm; measured. */
export const idleWorkerBytes = 150 * mebibyte;

/** How often a row of more than a few MiB is held at most: as read, while it grows, as text, and sent. */
export const largeRowCopies = 4;

/** A run of the larger formats, with the default settings. */
export const usualRunBytes = 96 * mebibyte;

/** Row blocks of the source in flight, and the data on the socket. */
const sourceBytes = 8 * mebibyte;

/** A block as JSON text, as rows, and as what the steps make of it: an estimate, 64 times the block. */
const chainBytes = 16 * mebibyte;

/**
 * The memory that a run may need: source + chain + encoder with its compression + (parts in flight + the one
 * being filled) × part size. Not included: rows larger than 2 MiB, for which a run takes memory when it reads
 * them, and the doubled parts of files past 15 GiB.
 */
export function memoryBudget(shape: RunShape): number {
  const { encoderBytes, partBytes, partsInFlight, transforms } = shape;
  const upload = partBytes === 0 ? 0 : (partsInFlight + 1) * partBytes;
  return sourceBytes + (transforms ? chainBytes : 0) + encoderBytes + upload;
}
