import { type FileSettings, readFileSettings } from '../domain/file-settings.ts';
import { settingsOfRecipe } from '../domain/format-settings.ts';
import { renderKeyTemplate } from '../domain/key-template.ts';
import type { CommitIntent, Encoding, IntervalJob } from '../pipeline/interval-job.ts';
import type { ReadRows } from '../pipeline/read-back.ts';
import type { ClaimedRun } from '../store/leases.ts';
import type { LineageUpload } from '../store/uploads.ts';
import type { Context } from '../use-cases/context.ts';
import { sourceRequestOf } from '../use-cases/runs/source-request.ts';
import { openChain } from '../use-cases/transformations/open-chain.ts';
import { tableOf, type UriOf } from './table-of.ts';

/** What a claimed run exports, of what its claim has read. */
export async function makeJob(
  options: {
    readonly context: Pick<Context, 'db' | 'secrets'>;
    readonly connectors: {
      encodingOf(files: FileSettings): Encoding;
      readonly readRows: ReadRows;
      readonly uriOf: UriOf;
      /** Whether files that a run makes at such a destination can be read again. */
      keepsFiles(type: string): boolean;
    };
  },
  run: ClaimedRun,
): Promise<IntervalJob> {
  const { interval, receipt } = run;
  const stored = readFileSettings(run.destination.config);
  // Files at a place that the export has left stay there.
  const keepsFiles = options.connectors.keepsFiles(run.destination.type);
  const isHere = keepsFiles && receipt?.destinationVersion === run.destinationVersion;
  const current = isHere ? receipt : null;
  // What is added to files is made as they were.
  const recipe = run.purpose === 'whole' ? null : (current?.recipe ?? null);
  const files = recipe ? { ...stored, ...recipe, ...settingsOfRecipe(recipe) } : stored;
  const writesManifest = recipe && current ? current.manifestKey !== null : files.writesManifest;
  const isOwn = ({ generation }: LineageUpload) => generation === run.fileGeneration;
  return {
    exportId: run.exportId,
    runId: run.runId,
    attempt: run.attempt,
    purpose: run.purpose,
    dropsMissing: run.dropsMissing,
    interval,
    chain: await openChain(options.context, run.teamId, run.chain),
    request: {
      ...sourceRequestOf(
        { ...run, ...files, ...(recipe && { dslQuery: recipe.dslQuery }) },
        interval,
      ),
      ...(files.csvArrays === 'postgres' && { nested: 'text' as const }),
    },
    prefix: renderKeyTemplate(files.prefix, {
      interval,
      table: run.model,
      batchExportId: run.exportId,
    }),
    encoding: options.connectors.encodingOf(files),
    readRows: options.connectors.readRows,
    maxFileBytes: files.maxFileBytes,
    writesManifest: writesManifest && keepsFiles,
    onRejected: files.onRejected,
    table: tableOf(options.connectors, run),
    generation: run.fileGeneration,
    era: run.era,
    current,
    intent: run.commitIntent as CommitIntent | null,
    uploads: run.uploads.filter(isOwn),
    mayBeOvertaken: run.mayBeOvertaken,
    begunManifests: run.begunManifests,
  };
}
