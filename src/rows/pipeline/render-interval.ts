import { keyNames, usualFileName } from '../../foundation/domain/file-name.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import { type Destination, unrecorded } from '../destinations/destination.ts';
import type { Source } from '../sources/source.ts';
import type { StepDefinition } from '../transforms/own-steps.ts';
import { FileSet } from './file-set.ts';
import type { IntervalJob } from './interval-job.ts';
import type { ManifestFile } from './manifest.ts';
import { openPartitions } from './partitioned-rows.ts';
import { keyIndicesOf, withChain } from './transform-blocks.ts';

/** An interval's files are made of these; equal settings and rows give equal files. */
export interface Rendering
  extends Pick<
    IntervalJob,
    'exportId' | 'interval' | 'request' | 'encoding' | 'maxFileBytes' | 'partitionBy'
  > {
  readonly steps: readonly StepDefinition[];
}

export interface RenderedInterval {
  readonly columns: readonly Column[];
  /** Rows of the interval in the source. */
  readonly totalRows: number;
  readonly droppedRows: number;
  readonly files: readonly ManifestFile[];
  readonly rejectedFiles: readonly ManifestFile[];
}

/**
 * Makes the files of an interval with a transformation chain again, at a destination of the caller's own,
 * to compare them with the current ones. Commits nothing.
 *
 * @throws SluiceError, and the reason of `signal`
 */
export async function renderInterval(
  job: Rendering,
  source: Source,
  destination: Destination,
  signal: AbortSignal,
): Promise<RenderedInterval> {
  return withChain(job, source, signal, async (snapshot, transformer) => {
    const { columns } = transformer ?? snapshot;
    const files = new FileSet({
      ...job,
      // No reader sees these files.
      runId: '',
      era: '',
      destination,
      columns,
      keyIndices: keyIndicesOf(snapshot),
      partitions: openPartitions(job, columns),
      signal,
      names: keyNames('', usualFileName, job.interval),
      generation: 1,
      writesManifest: false,
      journal: unrecorded,
    });
    let droppedRows = 0;
    for (const slice of snapshot.slices) {
      for await (const block of snapshot.read(slice, signal)) {
        droppedRows += await files.writeRows(block, transformer);
      }
    }
    droppedRows += await files.finishRows(transformer);
    const finished = await files.finish();
    await files.complete((file) => file.complete({ replaces: null }));
    const totalRows = await snapshot.countRows(signal);
    return { ...finished, columns, droppedRows, totalRows };
  });
}
