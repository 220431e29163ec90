import { randomUUID } from 'node:crypto';
import type { BatchExport } from '../domain/batch-export.ts';
import { type Timestamp, toTimestamp } from '../domain/time.ts';
import { parseCadence } from '../scheduling/parse-cadence.ts';
import { openSchedule } from '../scheduling/schedule.ts';
import { insertBatchExport } from '../store/batch-exports.ts';
import { readNow } from '../store/ticks.ts';
import type { Actor } from './actor.ts';
import type { Context } from './context.ts';
import { changesBetween, recordExportActivity } from './export-activity.ts';
import { type Config, sealDestination } from './export-destination.ts';
import type { ExportRules } from './export-rules.ts';
import { storedSchedule, windowOf } from './export-schedule.ts';
import { checkWindow } from './export-window.ts';
import { done, type Outcome, type Problem } from './outcome.ts';
import type { RunOperations } from './run-operations.ts';

export interface CreateExportInput {
  readonly name: string;
  readonly destination: { readonly type: string; readonly config: Config };
  readonly interval: string;
  readonly timezone?: string | undefined;
  readonly offsetDay?: number | null | undefined;
  readonly offsetHour?: number | null | undefined;
  readonly model: string;
  readonly dslQuery: string | null;
  readonly transformations: boolean;
  readonly paused: boolean;
  readonly lastPausedAt: Timestamp | null;
  readonly startAt: Timestamp | null;
  readonly endAt: Timestamp | null;
  /** Whether to export from startAt to now as well. */
  readonly backfill: boolean;
}

export interface CreatedExport {
  readonly batchExport: BatchExport;
  /** Null where nothing is backfilled. */
  readonly backfillId: string | null;
}

/** Creates an export. Nothing fires for the past: its first tick is the next boundary. */
export async function createExport(
  context: Context,
  rules: ExportRules,
  runs: Pick<RunOperations, 'startBackfill'>,
  actor: Actor,
  teamId: number,
  input: CreateExportInput,
): Promise<Outcome<CreatedExport>> {
  const { type, config } = input.destination;
  const parsed = parseCadence(input, context.policy.minIntervalMinutes);
  const query = input.dslQuery === null ? null : rules.checkQuery(input.dslQuery, input.model);
  const problems: Problem[] = [
    ...rules.checkDestination(type, config),
    ...(parsed.ok ? [] : parsed.problems.map(({ field, ...rest }) => ({ ...rest, attr: field }))),
    ...checkWindow(input.startAt, input.endAt),
    ...(query?.ok === false ? query.problems : []),
    ...(input.backfill && input.startAt === null ? [backfillNeedsStart] : []),
  ];
  if (!parsed.ok || problems.length > 0) return { ok: false, problems };

  const id = randomUUID();
  const { cadence } = parsed;
  const batchExport = await context.db.transaction(async (tx) => {
    const now = await readNow(tx);
    const { paused, startAt, endAt } = input;
    const schedule = openSchedule({ cadence, paused, ...windowOf(startAt, endAt) }, now);
    const created = await insertBatchExport(
      tx,
      {
        ...input,
        id,
        teamId,
        cadence,
        destination: sealDestination(rules, context.secrets, id, type, config),
        querySchema: query?.ok ? query.schema : null,
        lastPausedAt: input.lastPausedAt ?? (paused ? toTimestamp(now) : null),
        pausedReason: null,
      },
      storedSchedule(schedule),
    );
    await recordExportActivity(tx, actor, 'created', created, changesBetween(null, created));
    return created;
  });
  const backfillId = input.backfill ? await backfillThePast(context, runs, batchExport) : null;
  return done({ batchExport, backfillId });
}

const backfillNeedsStart: Problem = {
  code: 'required',
  detail: 'A backfill on create begins at start_at.',
  attr: 'start_at',
};

/** From start_at to now. A past that holds no whole interval is no fault. */
async function backfillThePast(
  context: Context,
  runs: Pick<RunOperations, 'startBackfill'>,
  batchExport: BatchExport,
): Promise<string | null> {
  const now = await readNow(context.db);
  const { startAt, endAt } = windowOf(batchExport.startAt, batchExport.endAt);
  const started = await runs.startBackfill(context, batchExport, {
    startAt,
    endAt: Math.min(now, endAt ?? now),
    order: 'oldest_first',
    reprocess: 'all',
    concurrency: null,
  });
  return 'backfillId' in started ? started.backfillId : null;
}
