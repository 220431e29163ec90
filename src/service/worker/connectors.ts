import type {
  Destination,
  DestinationOwner,
  StoreTraits,
} from '../../rows/destinations/destination.ts';
import type { StoredDestination } from '../../foundation/domain/batch-export.ts';
import type { DestinationConfig, FileSettings } from '../../foundation/domain/file-settings.ts';
import type { FormatSettings } from '../../foundation/domain/format-settings.ts';
import type { Encoding } from '../../rows/pipeline/interval-job.ts';
import type { ReadRows, WithoutRows } from '../../rows/pipeline/read-back.ts';
import type { TableFormat } from '../../rows/pipeline/table-format.ts';
import type { Source } from '../../rows/sources/source.ts';
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
  /** Whether files that a run makes at such a destination can be read again. */
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
