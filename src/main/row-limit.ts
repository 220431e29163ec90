import type { Config } from '../foundation/config/config.ts';
import {
  idleWorkerBytes,
  largeRowCopies,
  usualRunBytes,
} from '../service/admission/memory-budget.ts';
import { StartError } from './wait-for-database.ts';

type Limits = Pick<Config, 'MAX_ROW_MIB' | 'WORKER_MEMORY_MB'>;

const mebibyte = 1024 ** 2;
const usualMib = 64;
/** Any worker takes rows of this size. */
const leastMib = 8;

/** The largest row that such a worker can hold beside itself and the run that reads it. */
function fittingMib({ WORKER_MEMORY_MB: memoryMib }: Limits): number {
  const leftMib = memoryMib - (idleWorkerBytes + usualRunBytes) / mebibyte;
  return Math.max(leastMib, Math.floor(leftMib / largeRowCopies));
}

/** Maximum size of a row in MiB: MAX_ROW_MIB, or what fits into the memory of a worker, at most 64. */
export function maxRowMib(limits: Limits): number {
  return limits.MAX_ROW_MIB ?? Math.min(usualMib, fittingMib(limits));
}

/** @throws StartError if a worker with this memory cannot hold the rows that MAX_ROW_MIB allows */
export function checkRowLimit(limits: Limits): void {
  const configuredMib = maxRowMib(limits);
  const fitting = fittingMib(limits);
  if (configuredMib <= fitting) return;
  const needed = configuredMib * largeRowCopies + (idleWorkerBytes + usualRunBytes) / mebibyte;
  throw new StartError(
    `MAX_ROW_MIB=${configuredMib} needs a WORKER_MEMORY_MB of at least ${needed}: a worker holds a row up to ${largeRowCopies} times. Lower MAX_ROW_MIB to ${fitting}, or raise WORKER_MEMORY_MB.`,
  );
}
