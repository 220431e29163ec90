import type { BatchExport, Run, StepCount } from './api-types.ts';

/** Rows of a step that went to the rejected file: those that neither went on nor were dropped. */
export function rejectedBy(count: Pick<StepCount, 'in' | 'out' | 'dropped'>): number {
  return count.in - count.out - count.dropped;
}

/** The latest runs with counts of steps, the newest first. */
export function countedRuns(
  batchExports: readonly BatchExport[],
  limit: number,
): readonly { readonly run: Run; readonly batchExport: BatchExport }[] {
  const counted = batchExports.flatMap((batchExport) =>
    batchExport.latest_runs
      .filter(({ steps }) => steps !== null && steps.length > 0)
      .map((run) => ({ run, batchExport })),
  );
  const endOf = ({ run }: { readonly run: Run }) =>
    Date.parse(run.finished_at ?? run.last_updated_at);
  return counted.toSorted((a, b) => endOf(b) - endOf(a)).slice(0, limit);
}
