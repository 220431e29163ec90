import { randomUUID } from 'node:crypto';
import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import type { ExportSettings } from '../../../foundation/domain/export-settings.ts';
import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import { invalid, type Problem, Refusal } from '../../../foundation/domain/problem.ts';
import { type Instant, toTimestamp } from '../../../foundation/domain/time.ts';
import {
  joinTransaction,
  type Sql,
  type Transactor,
} from '../../../state/store/database/database.ts';
import {
  createBatchExport,
  findExportNamed,
  holdCreations,
} from '../../../state/store/exports/exports.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import { widenRange } from '../../scheduling/backfill-range.ts';
import { type CadenceInput, parseCadence } from '../../scheduling/parse-cadence.ts';
import { openSchedule } from '../../scheduling/schedule.ts';
import { timelineOf } from '../../scheduling/timeline.ts';
import { recordBackfill, wholeRange } from '../backfills/start-backfill.ts';
import type { Actor, Context } from '../context.ts';
import { changesOfNew, exportActivity } from './activity.ts';
import { sealDestination } from './destination.ts';
import {
  changeFilters,
  checkCsvArrays,
  checkDeadline,
  checkEventFilters,
  checkKeys,
  checkMode,
  type ExportRules,
  noPast,
} from './rules.ts';
import { checkWindow, windowOf } from './schedule.ts';

type StoredAsGiven = 'name' | 'model' | 'dslQuery' | 'filters' | 'transformations' | 'paused';
export type ExportFields = Pick<BatchExport, StoredAsGiven | 'lastPausedAt' | 'startAt' | 'endAt'>;

export interface CreateExportInput extends ExportSettings, CadenceInput, ExportFields {
  readonly destination: { readonly type: string; readonly config: DestinationConfig };
  readonly interval: string;
  /** True to also export from startAt to now. */
  readonly backfill: boolean;
  /** True to refuse it if the project has an export of this name. */
  readonly uniqueName: boolean;
}

export interface CreatedExport {
  readonly batchExport: BatchExport;
  readonly backfillId: string | null;
}

export function examineNewExport(
  { policy }: Pick<Context, 'policy'>,
  rules: ExportRules,
  teamId: number,
  input: CreateExportInput,
) {
  const { type } = input.destination;
  const own = rules.encloseConfig(type, input.destination.config, teamId);
  const checked = rules.checkDestination(type, own);
  const parsed = parseCadence(input, policy.minIntervalMinutes);
  const { model, transformations } = input;
  const noQuery = { model, dslQuery: null, filters: null };
  const filtered = changeFilters(rules, noQuery, input);
  const { dslQuery, filters } = filtered;
  const query = dslQuery === null ? null : rules.checkQuery(dslQuery, model, transformations);
  const problems: Problem[] = [
    ...checked.problems,
    ...checkEventFilters(rules, input.model, checked.config),
    ...checkCsvArrays(transformations, checked.config),
    ...(parsed.ok ? [] : parsed.problems),
    ...checkMode(rules, { ...input, config: checked.config }),
    ...checkDeadline(input, parsed.ok ? parsed.cadence : null),
    ...checkWindow(input.startAt, input.endAt),
    ...filtered.problems,
    ...(query?.ok === false ? query.problems : []),
    ...(query?.ok === true ? checkKeys(input.mode, query.missingKeys) : []),
    ...(input.backfill && input.startAt === null ? [backfillNeedsStart] : []),
    ...(input.backfill && input.mode !== 'append' ? [noPast(input.mode, 'backfill')] : []),
  ];
  return { problems, config: checked.config, parsed, query, dslQuery, filters };
}

/** Creates an export. Its first tick is the next boundary: past intervals need a backfill. */
export async function createExport(
  context: Context,
  rules: ExportRules,
  actor: Actor,
  teamId: number,
  input: CreateExportInput,
): Promise<CreatedExport> {
  const { type } = input.destination;
  const examined = examineNewExport(context, rules, teamId, input);
  const { problems, config, parsed, query, dslQuery, filters } = examined;
  if (!parsed.ok || problems.length > 0) throw new Refusal(...problems);

  const id = randomUUID();
  const { cadence } = parsed;
  const usual = rules.checkDestination(type, {}).config;
  const destination = sealDestination(rules, context.secrets, id, type, config);
  const { paused, startAt, endAt } = input;
  const { maxExportsPerProject } = context.policy;
  const store = async (db: Transactor): Promise<CreatedExport> => {
    if (input.uniqueName) {
      await holdCreations(db, teamId);
      await refuseTakenName(db, teamId, input.name);
    }
    const now = await readNow(db);
    const newExport = {
      ...input,
      ...{ id, teamId, cadence, destination, dslQuery, filters },
      querySchema: query?.ok ? query.schema : null,
      lastPausedAt: input.lastPausedAt ?? (paused ? toTimestamp(now) : null),
      pausedReason: null,
      pausedCode: null,
      schedule: openSchedule({ cadence, paused, ...windowOf(startAt, endAt) }, now),
    };
    const activity = exportActivity(actor, 'created', newExport, changesOfNew(newExport, usual));
    const batchExport = await createBatchExport(db, maxExportsPerProject, newExport, activity);
    if (!batchExport) {
      const detail = `The project has ${maxExportsPerProject} exports, the maximum. Delete one, or use another project.`;
      throw new Refusal(invalid(null, detail));
    }
    const backfillId = input.backfill ? await backfillThePast(db, context, batchExport, now) : null;
    return { batchExport, backfillId };
  };
  if (!input.backfill && !input.uniqueName) return store(context.db);
  const created = await context.db.transaction((tx) => store(joinTransaction(tx)));
  if (created.backfillId !== null) context.doorbell.backfillWaiting(created.backfillId);
  return created;
}

/** @throws Refusal (conflict, `name`) with the id of the export that has the name */
export async function refuseTakenName(sql: Sql, teamId: number, name: string): Promise<void> {
  const id = await findExportNamed(sql, teamId, name);
  if (id === null) return;
  const detail = `The project has an export of this name: ${id}. Update it, or choose another name. With unique_name false, names may repeat.`;
  throw new Refusal({ code: 'conflict', detail, attr: 'name' });
}

const startText = 'backfill needs start_at. Enter the time to begin at.';
const backfillNeedsStart: Problem = { code: 'required', detail: startText, attr: 'start_at' };

/** Backfills from start_at to now; does nothing if this contains no complete interval. */
async function backfillThePast(tx: Sql, context: Context, batchExport: BatchExport, now: Instant) {
  const { startAt, endAt: ownEnd } = windowOf(batchExport.startAt, batchExport.endAt);
  const endAt = Math.min(now, ownEnd ?? now);
  if (startAt === null || startAt >= endAt) return null;
  const range = { start: startAt, end: endAt };
  if (!widenRange(timelineOf(batchExport.schedule, []), range, now)) return null;
  return (await recordBackfill(tx, context, batchExport, wholeRange(range))).backfillId;
}
