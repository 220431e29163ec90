import { readFileSettings } from '../domain/file-settings.ts';
import { renderKeyTemplate } from '../domain/key-template.ts';
import type { CommitIntent, IntervalJob } from '../pipeline/interval-job.ts';
import type { ClaimedRun } from '../store/leases.ts';
import type { LineageUpload } from '../store/uploads.ts';
import { sourceRequestOf } from '../use-cases/runs/source-request.ts';
import { openChain } from '../use-cases/transformations/open-chain.ts';
import type { AttemptOptions } from './execute-run.ts';

/** What a claimed run exports, of what its claim has read. */
export async function makeJob(
  options: Pick<AttemptOptions, 'context' | 'connectors'>,
  run: ClaimedRun,
): Promise<IntervalJob> {
  const files = readFileSettings(run.destination.config);
  const { interval, receipt } = run;
  const isOwn = ({ generation }: LineageUpload) => generation === run.fileGeneration;
  return {
    exportId: run.exportId,
    runId: run.runId,
    attempt: run.attempt,
    interval,
    chain: await openChain(options.context, run.teamId, run.chain),
    request: sourceRequestOf({ ...run, ...files }, interval),
    prefix: renderKeyTemplate(files.prefix, {
      interval,
      table: run.model,
      batchExportId: run.exportId,
    }),
    encoding: options.connectors.encodingOf(files),
    maxFileBytes: files.maxFileBytes,
    writesManifest: files.writesManifest,
    generation: run.fileGeneration,
    era: run.era,
    // Files at a place that the export has left stay there.
    current: receipt?.destinationVersion === run.destinationVersion ? receipt : null,
    intent: run.commitIntent as CommitIntent | null,
    uploads: run.uploads.filter(isOwn),
    mayBeOvertaken: run.mayBeOvertaken,
    begunManifests: run.begunManifests,
  };
}
