import { SluiceError } from '../../foundation/domain/errors.ts';
import { type FileSettings, readFileSettings } from '../../foundation/domain/file-settings.ts';
import { ownStepsOf } from '../../foundation/domain/recipe.ts';
import type { ClaimedRun } from '../../state/store/runs/claims.ts';

const mebibyte = 1024 ** 2;

export interface RunMemory {
  /** What all runs of a worker may have together, without what the worker itself needs. */
  readonly memoryBytes: number;
  readonly connectors: {
    memoryOf(type: string, files: FileSettings, transforms: boolean, ownSteps: number): number;
  };
}

/**
 * Whether the plugins of a run's chain can ever run in a worker with this memory.
 *
 * @throws SluiceError `transformation.needs_memory` if not
 */
export function checkMemory(
  { connectors, memoryBytes }: RunMemory,
  run: Pick<ClaimedRun, 'chain' | 'destination'>,
): void {
  const ownSteps = ownStepsOf(run.chain);
  if (ownSteps === 0) return;
  const { type, config } = run.destination;
  const needed = connectors.memoryOf(type, readFileSettings(config), true, ownSteps);
  if (needed <= memoryBytes) return;
  const missingMib = Math.ceil((needed - memoryBytes) / mebibyte);
  const steps = ownSteps === 1 ? '1 step has' : `${ownSteps} steps have`;
  throw new SluiceError(
    'transformation.needs_memory',
    `${steps} a plugin of your own. For this run WORKER_MEMORY_MB is ${missingMib} MiB too small`,
  );
}
