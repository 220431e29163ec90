import type {
  Destination,
  DestinationOwner,
  StoreTraits,
} from '../../rows/destinations/destination.ts';
import type { StoredDestination } from '../../foundation/domain/batch-export.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import {
  type DestinationConfig,
  type FileSettings,
  readFileSettings,
} from '../../foundation/domain/file-settings.ts';
import type { FormatSettings } from '../../foundation/domain/format-settings.ts';
import { ownStepsOf } from '../../foundation/domain/recipe.ts';
import type { Encoding } from '../../rows/pipeline/interval-job.ts';
import type { ReadRows, WithoutRows } from '../../rows/pipeline/read-back.ts';
import type { TableFormat } from '../../rows/pipeline/table-format.ts';
import type { Source } from '../../rows/sources/source.ts';
import type { ClaimedRun } from '../../state/store/runs/claims.ts';
import type { DescribedPlace } from '../use-cases/tenants/offboard.ts';

export interface ExportDestination extends DestinationOwner {
  readonly exportId: string;
  readonly destination: StoredDestination;
}

export interface Connectors {
  /** Decrypts the secrets and opens the destination. @param isTried if it is known to fail, no request is repeated */
  openDestination(
    stored: ExportDestination,
    traits?: StoreTraits | null,
    isTried?: boolean,
  ): Destination;
  readonly tableOf: TableFormat['tableOf'];
  /** @throws SluiceError `source.unknown_model` */
  sourceOf(model: string): Source;
  encodingOf(
    files: Pick<FileSettings, 'format' | 'compression'> & Partial<FormatSettings>,
  ): Encoding;
  readonly readRows: ReadRows;
  readonly withoutRows: WithoutRows;
  /** Says whether files that a run makes at such a destination can be read again. */
  keepsFiles(type: string): boolean;
  /** Where files go, without secrets; null if such a destination keeps none. */
  placeOf(type: string, config: DestinationConfig): DescribedPlace | null;
  /** Bytes that a run to such a destination may need. @param ownSteps steps with a plugin of an organization */
  memoryOf(
    type: string,
    files: Pick<FileSettings, 'format' | 'compression' | 'partitionBy'>,
    transforms?: boolean,
    ownSteps?: number,
  ): number;
}

/** @throws SluiceError `transformation.needs_memory` if the plugins of the chain can never run in this worker */
export function checkMemory(
  connectors: Pick<Connectors, 'memoryOf'>,
  memoryBytes: number,
  { chain, destination }: Pick<ClaimedRun, 'chain' | 'destination'>,
): void {
  const ownSteps = ownStepsOf(chain);
  if (ownSteps === 0) return;
  const { type, config } = destination;
  const needed = connectors.memoryOf(type, readFileSettings(config), true, ownSteps);
  if (needed <= memoryBytes) return;
  const missingMib = Math.ceil((needed - memoryBytes) / 1024 ** 2);
  const steps = ownSteps === 1 ? '1 step has' : `${ownSteps} steps have`;
  const detail = `${steps} a plugin of your own. For this run WORKER_MEMORY_MB is ${missingMib} MiB too small`;
  throw new SluiceError('transformation.needs_memory', detail);
}
