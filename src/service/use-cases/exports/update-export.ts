import { isDeepStrictEqual } from 'node:util';
import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { type Changes, changeSettings } from '../../../foundation/domain/export-settings.ts';
import { invalid, orNotFound, type Problem, Refusal } from '../../../foundation/domain/problem.ts';
import { type Instant, type Timestamp, toTimestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import {
  hasRuns,
  lockExport,
  lockExportNow,
  markBatchExportDeleted,
} from '../../../state/store/exports/exports.ts';
import {
  listFormerDestinations,
  retireDestination,
  returnToPlace,
} from '../../../state/store/files/former-destinations.ts';
import { healFailed, healNow } from '../../../state/store/healing/healing.ts';
import { type CadenceInput, parseCadence } from '../../scheduling/parse-cadence.ts';
import { changeCadence, changeWindow, pause, unpause } from '../../scheduling/schedule.ts';
import type { Actor, Context } from '../context.ts';
import { cancelLiveWork } from '../runs/cancel-work.ts';
import { changeExport, recordExportActivity } from './activity.ts';
import type { ExportFields } from './create-export.ts';
import { type ChangedDestination, changeConfig, sealDestination } from './destination.ts';
import {
  changeDeadline,
  changeFilters,
  checkCsvArrays,
  checkDeadline,
  checkEventFilters,
  checkFixed,
  checkKeys,
  checkMode,
  checkTableStays,
  type ExportRules,
} from './rules.ts';
import { checkWindow, windowOf } from './schedule.ts';

export interface UpdateExportInput extends Changes<ExportFields>, CadenceInput {
  readonly destination?: ChangedDestination | undefined;
  readonly settings?: Parameters<typeof changeSettings>[1] | undefined;
}

export function examineChange(
  context: Pick<Context, 'policy' | 'secrets'>,
  rules: ExportRules,
  before: BatchExport,
  input: UpdateExportInput,
) {
  const parsed = parseCadence(input, context.policy.minIntervalMinutes, before.cadence);
  const startAt = input.startAt === undefined ? before.startAt : input.startAt;
  const endAt = input.endAt === undefined ? before.endAt : input.endAt;
  const destination = changeDestination(context, rules, before, input);
  const query = changeQuery(rules, before, input);
  const change = input.settings ?? {};
  const settings = { ...changeSettings(before, change), ...changeDeadline(before, change) };
  const problems: Problem[] = [
    ...destination.problems,
    ...(parsed.ok ? [] : parsed.problems),
    ...checkFixed('model', before.model, input.model),
    ...checkMode(rules, { ...settings, model: before.model, config: destination.value.config }),
    ...checkDeadline(settings, parsed.ok ? parsed.cadence : null),
    ...checkWindow(startAt, endAt),
    ...query.problems,
    ...checkCsvArrays(input.transformations ?? before.transformations, destination.value.config),
  ];
  return { problems, parsed, startAt, endAt, destination, query, settings };
}

/** Changes an export. `paused` has the same effect as pauseExport and unpauseExport. */
export async function updateExport(
  context: Context,
  rules: ExportRules,
  actor: Actor,
  id: string,
  input: UpdateExportInput,
): Promise<BatchExport> {
  return context.db.transaction(async (tx) => {
    const { batchExport: before, now } = orNotFound(await lockExportNow(tx, id));
    const examined = examineChange(context, rules, before, input);
    const { parsed, destination, query, startAt, endAt, settings, problems } = examined;
    if (!parsed.ok || problems.length > 0) throw new Refusal(...problems);

    if (settings.mode !== before.mode && (await hasRuns(tx, id))) {
      // Its files would be read by another rule.
      const detail = `The export has had runs, so its mode stays ${before.mode}. Leave mode out, or create another export with its own prefix.`;
      throw new Refusal(invalid('mode', detail));
    }
    await moveIfElsewhere(tx, rules, before, destination.value);
    const paused = input.paused ?? before.paused;
    // As in pauseExport, a person takes over a pause that Sluice made.
    const isKept = paused === before.paused && input.paused !== true;
    const after = {
      name: input.name ?? before.name,
      destination: destination.value,
      cadence: parsed.cadence,
      dslQuery: query.dslQuery,
      querySchema: query.querySchema,
      filters: query.filters,
      transformations: input.transformations ?? before.transformations,
      paused,
      lastPausedAt: lastPausedAtAfter(before, input, now),
      pausedReason: isKept ? before.pausedReason : null,
      pausedCode: isKept ? before.pausedCode : null,
      startAt,
      endAt,
      ...settings,
      schedule: changeSchedule(before, { cadence: parsed.cadence, paused, startAt, endAt }, now),
    };
    const isFixed = fixingFields.some((name) => !isDeepStrictEqual(before[name], after[name]));
    if (isFixed) await healNow(tx, id);
    if (after.healForHours > before.healForHours) await healFailed(tx, id, after.healForHours);
    return changeExport(tx, actor, 'updated', before, after);
  });
}

/** Fields whose change can end what the runs of an export failed with. */
const fixingFields = ['destination', 'dslQuery', 'filters', 'transformations'] as const;

/**
 * If the place changed, open uploads must be aborted at the former place. If the export returns to a former place, the files there
 * are its current files again.
 */
async function moveIfElsewhere(
  tx: Sql,
  rules: ExportRules,
  { id, destination: before }: BatchExport,
  { type, config }: BatchExport['destination'],
): Promise<void> {
  if (config === before.config) return;
  const place = rules.placeOf(type, config);
  if (rules.placeOf(type, before.config) === place) return;
  const former = await listFormerDestinations(tx, id);
  const versions = former
    .filter((left) => rules.placeOf(type, left.config) === place)
    .map(({ version }) => version);
  await retireDestination(tx, id);
  await returnToPlace(tx, id, versions);
}

/** A pause sets the time of the change. Otherwise the request decides, or the value stays. */
function lastPausedAtAfter(
  before: BatchExport,
  input: UpdateExportInput,
  now: Instant,
): Timestamp | null {
  if (input.paused === true && !before.paused) return toTimestamp(now);
  return input.lastPausedAt === undefined ? before.lastPausedAt : input.lastPausedAt;
}

function changeSchedule(
  before: BatchExport,
  settings: Pick<BatchExport, 'cadence' | 'paused' | 'startAt' | 'endAt'>,
  now: Instant,
) {
  const recast = changeCadence(before.schedule, settings.cadence, now);
  const bounded = changeWindow(recast, windowOf(settings.startAt, settings.endAt), now);
  if (settings.paused === before.paused) return bounded;
  return settings.paused ? pause(bounded, now) : unpause(bounded, now);
}

function changeDestination(
  context: Pick<Context, 'secrets'>,
  rules: ExportRules,
  before: BatchExport,
  input: UpdateExportInput,
): { value: BatchExport['destination']; problems: readonly Problem[] } {
  const { type } = before.destination;
  const fixed = checkFixed('destination__type', type, input.destination?.type);
  if (input.destination?.config === undefined) {
    return { value: before.destination, problems: fixed };
  }
  const changed = changeConfig(context.secrets, rules, before, input.destination.config);
  const { current, merged, checked, missing, isDamaged } = changed;
  if (missing.length > 0) return { value: before.destination, problems: [...fixed, ...missing] };
  const { config } = checked;
  const hasLeft = leavesPlace(rules, before.destination, checked);
  const problems = [
    ...fixed,
    ...checked.problems,
    ...checkTableStays(before.destination.config, config, hasLeft),
    ...checkEventFilters(rules, before.model, config),
  ];
  if (problems.length > 0) return { value: before.destination, problems };
  const sealed = sealDestination(rules, context.secrets, before.id, type, config);
  const isKept = (name: string) => isDeepStrictEqual(current[name] ?? null, merged[name] ?? null);
  const keepsSecrets = !isDamaged && rules.secretProperties(type).every(isKept);
  // The same secret encrypted again would look like a change.
  const { secrets } = keepsSecrets ? before.destination : sealed;
  return { value: { ...sealed, secrets }, problems };
}

/** Says whether the files of a changed config would be elsewhere. A property that is refused counts as it was. */
function leavesPlace(
  rules: ExportRules,
  { type, config: before }: BatchExport['destination'],
  { config, problems }: ReturnType<ExportRules['checkDestination']>,
): boolean {
  const refused = problems.map(({ attr }) => attr?.split('__')[2]);
  // It is refused as a whole.
  if (refused.includes(undefined)) return false;
  const asBefore = refused.map((name = '') => [name, before[name]]);
  const after = { ...config, ...Object.fromEntries(asBefore) };
  return rules.placeOf(type, before) !== rules.placeOf(type, after);
}

function changeQuery(
  rules: ExportRules,
  before: BatchExport,
  input: UpdateExportInput,
): Pick<BatchExport, 'dslQuery' | 'filters' | 'querySchema'> & { problems: readonly Problem[] } {
  const { transformations = before.transformations } = input;
  const { mode = before.mode } = input.settings ?? {};
  const changed = { ...changeFilters(rules, before, input), querySchema: before.querySchema };
  const { dslQuery, problems } = changed;
  const isKept =
    input.dslQuery === undefined &&
    transformations === before.transformations &&
    mode === before.mode &&
    dslQuery === before.dslQuery;
  if (problems.length > 0 || isKept) return changed;
  if (dslQuery === null) return { ...changed, querySchema: null };
  const checked = rules.checkQuery(dslQuery, before.model, transformations);
  if (!checked.ok) return { ...changed, problems: checked.problems };
  const keyProblems = checkKeys(mode, checked.missingKeys);
  return { ...changed, querySchema: checked.schema, problems: keyProblems };
}

/** Marks an export as deleted and cancels its live work. It never runs again; its records stay for audit. */
export async function deleteExport(context: Context, actor: Actor, id: string): Promise<void> {
  return context.db.transaction(async (tx) => {
    const batchExport = orNotFound(await lockExport(tx, id));
    await markBatchExportDeleted(tx, id);
    await cancelLiveWork(tx, id);
    await recordExportActivity(tx, actor, 'deleted', batchExport, []);
  });
}
