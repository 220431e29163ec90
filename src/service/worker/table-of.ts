import type { StoredDestination } from '../../foundation/domain/batch-export.ts';
import { type DestinationConfig, readFileSettings } from '../../foundation/domain/file-settings.ts';
import { commonFolder } from '../../foundation/domain/key-template.ts';
import type { IntervalTable } from '../../rows/pipeline/interval-job.ts';

/** The address of an object at a destination, as other programs use it. */
export type UriOf = (type: string, config: DestinationConfig, key: string) => string;

const dayMs = 86_400_000;

/** What says where an export's table is. */
interface TableExport {
  readonly exportId: string;
  readonly model: string;
  readonly destination: StoredDestination;
}

/** The table of an export, by its destination; null if it has none. */
export function tableOf(
  { uriOf }: { readonly uriOf: UriOf },
  { exportId, model, destination: { type, config } }: TableExport,
): IntervalTable | null {
  const files = readFileSettings(config);
  if (files.tableFormat === null) return null;
  return {
    folder: commonFolder(files.prefix, { table: model, batchExportId: exportId }),
    retentionMs: files.snapshotRetentionDays * dayMs,
    uri: (key) => uriOf(type, config, key),
  };
}
