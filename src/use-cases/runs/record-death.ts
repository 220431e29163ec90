import { SluiceError } from '../../domain/errors.ts';
import { type ClaimedRun, countDeathAlone } from '../../store/leases.ts';
import type { Context } from '../context.ts';
import { quarantineRun, recordFault } from './finish-run.ts';

/** How the process of a run ended. */
export interface DeathAlone {
  /** Whether the run itself must have done it; else it may have been ended from outside. */
  readonly certain: boolean;
  /** `SIGSEGV` */
  readonly how: string;
}

/**
 * Records that a run's own process ended under it. If the run must have done it, or has done it
 * before, it is set aside; else another attempt follows, alone again. Before the first row is read
 * the death is a fault like any other.
 */
export async function recordDeathAlone(
  context: Context,
  run: ClaimedRun,
  { certain, how }: DeathAlone,
): Promise<void> {
  const deaths = await countDeathAlone(context.db, run);
  const text = `The process that the run had for itself ended: ${how}.`;
  if (deaths !== null && (certain || deaths >= context.policy.maxDeathsAlone)) {
    await quarantineRun(context, run, text);
  } else {
    await recordFault(context, run, new SluiceError('internal.unexpected', text), Math.random());
  }
}
