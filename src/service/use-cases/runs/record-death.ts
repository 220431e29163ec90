import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { ClaimedRun } from '../../../state/store/runs/claims.ts';
import { countDeathAlone } from '../../../state/store/runs/leases.ts';
import type { Context } from '../context.ts';
import { quarantineRun, recordFault } from './finish-run.ts';

/** How the process of a run ended. */
export interface DeathAlone {
  /** Whether the run must have caused it; otherwise the process may have been killed from outside. */
  readonly certain: boolean;
  /** `SIGSEGV` */
  readonly how: string;
}

/**
 * Records that a run's own process died. If the run must have caused it, or it has happened before, the
 * run ends as Failed. Otherwise it is retried, again in its own process.
 */
export async function recordDeathAlone(
  context: Context,
  run: ClaimedRun,
  { certain, how }: DeathAlone,
): Promise<void> {
  const deaths = await countDeathAlone(context.db, run);
  const text = `The run's own process ended: ${how}.`;
  if (deaths !== null && (certain || deaths >= context.policy.maxDeathsAlone)) {
    await quarantineRun(context, run, text);
  } else {
    await recordFault(context, run, new SluiceError('internal.unexpected', text), Math.random());
  }
}
