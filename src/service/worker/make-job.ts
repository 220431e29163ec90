import { type KeyNames, keyNames, tailOf } from '../../foundation/domain/file-name.ts';
import { type FileSettings, readFileSettings } from '../../foundation/domain/file-settings.ts';
import { settingsOfRecipe } from '../../foundation/domain/format-settings.ts';
import { renderKeyTemplate } from '../../foundation/domain/key-template.ts';
import { stemOf } from '../../foundation/domain/object-keys.ts';
import type { CommitIntent, Encoding, IntervalJob } from '../../rows/pipeline/interval-job.ts';
import type { ReadRows, WithoutRows } from '../../rows/pipeline/read-back.ts';
import type { TableFormat } from '../../rows/pipeline/table-format.ts';
import type { ClaimedRun } from '../../state/store/runs/claims.ts';
import { listFormerManifests } from '../../state/store/files/leftover-files.ts';
import type { Context } from '../use-cases/context.ts';
import { readSigner } from '../use-cases/installation/signing.ts';
import { openErased } from '../use-cases/runs/erase-intervals.ts';
import { sourceRequestOf } from '../use-cases/runs/source-request.ts';
import { openChain } from '../use-cases/transformations/open-chain.ts';

/** What a claimed run exports, of what its claim has read. */
export async function makeJob(
  options: {
    readonly context: Pick<Context, 'db' | 'secrets'>;
    readonly connectors: {
      encodingOf(files: FileSettings): Encoding;
      readonly readRows: ReadRows;
      readonly withoutRows: WithoutRows;
      readonly tableOf: TableFormat['tableOf'];
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
  const files = recipe
    ? { ...stored, partitionBy: [], ...recipe, ...settingsOfRecipe(recipe) }
    : stored;
  const writesManifest = recipe && current ? current.manifestKey !== null : files.writesManifest;
  return {
    exportId: run.exportId,
    runId: run.runId,
    attempt: run.attempt,
    purpose: run.purpose,
    dropsMissing: run.dropsMissing,
    isDeleted: run.isDeleted,
    interval,
    // An erasure reads what the chain made.
    chain: run.purpose === 'erase' ? null : await openChain(options.context, run.teamId, run.chain),
    request: {
      ...sourceRequestOf(
        { ...run, ...files, ...(recipe && { dslQuery: recipe.dslQuery }) },
        interval,
      ),
      ...(files.csvArrays === 'postgres' && { nested: 'text' as const }),
    },
    names: namesOf(run, files),
    encoding: options.connectors.encodingOf(files),
    readRows: options.connectors.readRows,
    withoutRows: options.connectors.withoutRows,
    erased: openErased(options.context, run),
    maxFileBytes: files.maxFileBytes,
    partitionBy: files.partitionBy,
    writesManifest: writesManifest && keepsFiles,
    onRejected: files.onRejected,
    // Files that were made before the export had a table are not in it.
    table: files.tableFormat === null ? null : options.connectors.tableOf(run),
    generation: run.fileGeneration,
    era: run.era,
    sign: await readSigner(options.context),
    current,
    formerManifests:
      run.destinationVersion === 0 ? [] : await listFormerManifests(options.context.db, run),
    intent: run.commitIntent as CommitIntent | null,
    mayBeOvertaken: run.mayBeOvertaken,
    begunManifests: run.begunManifests,
  };
}

/** An erasure keeps the manifest's key, even if the export has another prefix or file_name now. */
function namesOf(
  { purpose, receipt, interval, model, exportId }: ClaimedRun,
  { prefix, fileName }: FileSettings,
): KeyNames {
  const manifest = receipt?.manifestKey ?? null;
  if (purpose === 'erase' && manifest !== null) {
    return { stem: stemOf(manifest), tail: tailOf(fileName) };
  }
  const values = { interval, table: model, batchExportId: exportId };
  return keyNames(renderKeyTemplate(prefix, values), fileName, interval);
}
