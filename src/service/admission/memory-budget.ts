import { ownStepMib } from '../../rows/transforms/own-steps.ts';

const mebibyte = 1024 ** 2;

export interface RunShape {
  readonly transforms: boolean;
  /** Steps of the chain with an organization's own plugin: each has a process of its own. */
  readonly ownSteps?: number;
  /** The most that the encoder and its compression hold. */
  readonly encoderBytes: number;
  /** The size of an upload's first parts; 0 if nothing is uploaded. */
  readonly partBytes: number;
  readonly partsInFlight: number;
  readonly partitions?: boolean;
}

/** Memory of a worker's process without runs: Node, pools, and the code and heap once warm; measured. */
export const idleWorkerBytes = 150 * mebibyte;

/** The most copies of a row of more than a few MiB: as read, while it grows, as text, and sent. */
export const largeRowCopies = 4;

/** A run of the larger formats, with the default settings. */
export const usualRunBytes = 96 * mebibyte;

/** The bytes that several large runs of one organization leave to a run of another: a quarter, at most a usual run. @param bytes of large runs */
export const leftToOthers = (bytes: number): number => Math.min(usualRunBytes, bytes / 4);

/** The most that a run of at most 512 KiB of rows needs, whatever its format is; measured. */
export const smallRunBytes = 3 * mebibyte;

/** The additional memory of a run that reads delivered files: the pages of a row group, and one of each column unpacked; measured. */
export const readBackBytes = 80 * mebibyte;

/** A share of a worker's memory that large runs leave to small ones. */
const smallShare = 1 / 6;

/** Slots for small runs in a worker, which large runs can't take. @param most as many as the operator allows */
export function smallSlots(memoryBytes: number, most: number): number {
  return Math.min(most, Math.floor((memoryBytes * smallShare) / smallRunBytes));
}

/** Row blocks of the source in flight, and the data on the socket. */
const sourceBytes = 8 * mebibyte;

/** Blocks on their way through a chain, as bytes and as rows: an estimate, 64 times a block. */
const chainBytes = 16 * mebibyte;

/** Rows that are sorted by partition, and up to 10,000 files that wait for their commit; estimated. `e2e/worker-memory` bounds 5,000. */
const partitionBytes = 96 * mebibyte;

export function sandboxMemory(ownSteps: number): number {
  return ownSteps * ownStepMib * mebibyte;
}

/**
 * The memory that a run may need: source + chain with the processes of own plugins + encoder with its compression + (parts in flight + the one
 * being filled) × part size + partitions. Not included: rows larger than 2 MiB, for which a run takes memory when it reads
 * them, and the doubled parts of files past 15 GiB.
 */
export function memoryBudget(shape: RunShape): number {
  const { encoderBytes, partBytes, partsInFlight, transforms, ownSteps = 0 } = shape;
  const partitions = shape.partitions ? partitionBytes : 0;
  const upload = partBytes === 0 ? 0 : (partsInFlight + 1) * partBytes;
  const chain = (transforms ? chainBytes : 0) + sandboxMemory(ownSteps);
  return sourceBytes + chain + encoderBytes + upload + partitions;
}
