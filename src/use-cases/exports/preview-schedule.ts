import type { BatchExport } from '../../domain/batch-export.ts';
import { type PreviewedInterval, previewIntervals } from '../../scheduling/preview.ts';
import { readNow } from '../../store/ticks.ts';
import type { Context } from '../context.ts';

/** The interval open now and those after it, as the schedule stands. */
export async function previewSchedule(
  context: Context,
  batchExport: BatchExport,
  count: number,
): Promise<readonly PreviewedInterval[]> {
  return previewIntervals(batchExport.schedule, await readNow(context.db), count);
}
