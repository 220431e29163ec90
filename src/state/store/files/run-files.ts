import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import { queryFirst } from '../database/statement.ts';
import type { CommittedFiles } from '../../../foundation/domain/receipt.ts';
import type { Run } from '../runs/runs.ts';

export interface IntervalFiles
  extends Pick<CommittedFiles, 'generation' | 'manifestKey' | 'files' | 'rejectedFiles'> {
  /** The run that wrote them, or that found them unchanged. */
  readonly runId: string;
  /** Generation of the files that the run of the request committed; null if it committed none. */
  readonly runGeneration: number | null;
  readonly destination: {
    readonly type: string;
    /** The version of a destination that the export has left; null: the files are at its present one. */
    readonly leftVersion: number | null;
    /** The config of the place at which the files are, also if the export has left it; without secrets. */
    readonly config: DestinationConfig;
  };
}

/** Null if the interval of the run is not exported. */
export const findFilesOf = queryFirst<
  IntervalFiles,
  [run: Pick<Run, 'id' | 'exportId' | 'startsAt' | 'endsAt'>]
>(
  `select c.run_id as "runId", c.generation, c.manifest_key as "manifestKey", c.files,
            c.rejected_files as "rejectedFiles",
            (select r.committing_generation from runs r where r.id = $4 and r.status = 'Completed') as "runGeneration", json_build_object('type', e.destination_type,
              'leftVersion', nullif(c.destination_version, e.destination_version),
              'config', case when c.destination_version = e.destination_version then e.destination_config
                             else coalesce(f.destination_config, e.destination_config) end) as destination
       from receipts c join batch_exports e on e.id = c.export_id
       left join former_destinations f on f.export_id = c.export_id and f.version = c.destination_version
      where c.export_id = $1 and c.data_interval_start = $2 and c.data_interval_end = $3`,
  (run) => [run.exportId, run.startsAt, run.endsAt, run.id],
);
