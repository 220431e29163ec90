import { type Foundation, openFoundation } from '../../src/main/foundation.ts';
import type { Part } from '../../src/main/run-process.ts';
import { startWorker } from '../../src/main/worker-process.ts';
import { ensureEventsTable } from '../../src/rows/sources/index.ts';
import type { Source } from '../../src/rows/sources/source.ts';
import {
  type LookBackOptions,
  lookBack,
  SlowExports,
} from '../../src/service/use-cases/runs/look-back.ts';
import { WorkGuard } from '../../src/service/use-cases/work-guard.ts';
import { takeLookBacks } from '../../src/state/store/intervals/look-backs.ts';
import { openRunSide, type RunSide } from './run-side.ts';
import { sweepSoon } from './sweep-soon.ts';
import { until } from './until.ts';

/** A look that finds nothing. */
export const nothing = { snapshot: '1:1:@1', digest: null, count: 0 };

/** A run side with the table of events, and a worker that fetches its late rows. */
export async function openLateSide() {
  const side = await openRunSide();
  await ensureEventsTable(side.url);
  let foundation: Foundation | null = null;
  let worker: Part | null = null;
  const closeWorker = async () => worker?.close();
  const sweep = async () => foundation && sweepSoon(foundation.producer.queues);
  /** So that a test need not wait for the pauses between two looks. */
  const letTimePass = async () => {
    await side.sql`update receipts set pending_checked_at = pending_checked_at - interval '3 hours',
              looked_back_at = looked_back_at - interval '3 hours'`;
  };
  return {
    ...side,
    ...{ closeWorker, sweep, letTimePass },
    /** Starts the worker. */
    async start(env: Record<string, string>) {
      foundation = await openFoundation(side.workerConfig(env), 'worker');
      worker = await startWorker(foundation);
    },
    /** Waits until so many runs of the export have completed. */
    untilRuns: (exportId: string, wanted: number) =>
      until(
        async () => {
          await letTimePass();
          await sweep();
          const runs = await side.listRuns(exportId);
          const done = runs.filter(({ status }) => status === 'Completed');
          return done.length === wanted ? done : null;
        },
        { timeoutMs: 40_000, everyMs: 200, message: `${wanted} runs have completed` },
      ),
    /** What a worker takes that looks back so many hours. */
    take: (lateLookbackHours: number, modelLookbackHours: Readonly<Record<string, number>> = {}) =>
      takeLookBacks(
        side.db,
        { lateLookbackHours, modelLookbackHours },
        { limit: 4, without: [], slow: [], isLong: false },
      ),
    /** A worker looks back, at a source that answers so. */
    look: (
      context: RunSide['context'],
      lookAgain: (...asked: Parameters<Source['lookAgain']>) => Promise<unknown>,
      more: Partial<LookBackOptions> = {},
    ) =>
      lookBack(context, {
        sourceOf: () => ({ lookAgain }) as Partial<Source> as Source,
        onError: () => {},
        keepsFiles: () => true,
        guard: new WorkGuard(side.db, () => {}),
        onMade: () => {},
        slow: new SlowExports(),
        stopping: new AbortController().signal,
        ...more,
      }),
    async stop() {
      await closeWorker();
      await foundation?.close();
      await side.stop();
    },
  };
}
