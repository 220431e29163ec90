import type { ErasedValue } from '../../foundation/domain/erased-value.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { keyNames, usualFileName } from '../../foundation/domain/file-name.ts';
import type { ManifestFile } from '../../foundation/domain/receipt.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import { type Destination, unrecorded } from '../destinations/destination.ts';
import type { ElementRequest, SequenceReading, Source } from '../sources/source.ts';
import type { StepDefinition } from '../transforms/own-steps.ts';
import { FileSet } from './file-set.ts';
import type { IntervalJob } from './interval-job.ts';
import { canonicalKey, RowKeys } from './row-keys.ts';
import { openPartitions } from './partitioned-rows.ts';
import { keyIndicesOf, withChain, writeDeletes } from './write-rows.ts';

/** An interval's files are made of these; equal settings and rows give equal files. */
interface Rendering
  extends Pick<
    IntervalJob,
    'exportId' | 'interval' | 'request' | 'encoding' | 'maxFileBytes' | 'partitionBy'
  > {
  readonly steps: readonly StepDefinition[];
  /** Of an element: the one whose deletes are written too, by the state of the table; missing: none. */
  readonly deletesOf?: DeletesOf;
}

/** Decides by the state of the table, in the snapshot of the rows, which element's deletes belong to it. What it throws ends all. */
export type DeletesOf = (reading: SequenceReading) => ElementRequest;

export interface RenderedInterval {
  readonly columns: readonly Column[];
  readonly keyIndices: readonly number[];
  readonly totalRows: number;
  readonly droppedRows: number;
  readonly files: readonly ManifestFile[];
  readonly rejectedFiles: readonly ManifestFile[];
}

/** Makes the files of an interval with a chain again, to compare them with the current ones. Commits nothing. */
export async function renderInterval(
  job: Rendering,
  source: Source,
  destination: Destination,
  signal: AbortSignal,
): Promise<RenderedInterval> {
  return withChain(job, source, signal, async (snapshot, transformer) => {
    const { columns } = transformer ?? snapshot;
    const { sequence } = snapshot;
    const element = sequence && job.deletesOf ? job.deletesOf(sequence) : null;
    const keyIndices = keyIndicesOf(snapshot);
    const files = new FileSet({
      ...job,
      // No reader sees these files.
      runId: '',
      era: '',
      destination,
      columns,
      keyIndices,
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
    if (element) {
      const select = transformer ? { select: 'columns' as const } : {};
      const later = await snapshot.share({ ...job.request, ...select, element }, signal);
      try {
        await writeDeletes({ snapshot: later, element: element.number, signal }, files, columns);
      } finally {
        await later.close();
      }
    }
    const finished = await files.finish();
    await files.complete((file) => file.complete({ replaces: null }));
    const totalRows = await snapshot.countRows(signal);
    return { ...finished, columns, keyIndices, droppedRows, totalRows };
  });
}

/** Counts the rows with a value that the source has for an interval now, as its files would have them. */
export async function countInSource(
  rendering: Omit<Rendering, 'exportId' | 'maxFileBytes' | 'partitionBy'>,
  { column, value }: ErasedValue,
  source: Source,
  signal: AbortSignal,
): Promise<number> {
  return withChain(rendering, source, signal, async (snapshot, transformer) => {
    const { columns } = transformer ?? snapshot;
    const index = columns.findIndex(({ name }) => name === column);
    const keyColumn = columns[index];
    if (!keyColumn) throw new SluiceError('query.invalid', `the rows have no column ${column} now`);
    const keys = new RowKeys(columns, [index], rendering.encoding.toJson);
    const same = canonicalKey(keyColumn, value);
    let count = 0;
    const see = (block: Parameters<RowKeys['keyOf']>[0]) => {
      for (let row = 0; row < block.rowCount; row += 1) {
        if (keys.keyOf(block, row) === same) count += 1;
      }
    };
    for (const slice of snapshot.slices) {
      for await (const block of snapshot.read(slice, signal)) {
        if (!transformer) see(block);
        else for (const transformed of await transformer.write(block)) see(transformed.block);
      }
    }
    for (const transformed of (await transformer?.finish()) ?? []) see(transformed.block);
    return count;
  });
}
