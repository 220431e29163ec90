import { isDeepStrictEqual } from 'node:util';
import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import type { Cadence } from '../../../foundation/domain/cadence.ts';
import { type Changes, changeSettings } from '../../../foundation/domain/export-settings.ts';
import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import { notFound, type Problem, Refusal } from '../../../foundation/domain/problem.ts';
import { type Instant, type Timestamp, toTimestamp } from '../../../foundation/domain/time.ts';
import { type CadenceInput, parseCadence } from '../../scheduling/parse-cadence.ts';
import { changeCadence, changeWindow, pause, unpause } from '../../scheduling/schedule.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { hasRuns, lockExportNow } from '../../../state/store/exports/exports.ts';
import {
  listFormerDestinations,
  retireDestination,
  returnToPlace,
} from '../../../state/store/files/former-destinations.ts';
import { healFailed, healNow } from '../../../state/store/healing/healing.ts';
import type { Actor, Context } from '../context.ts';
import { changeExport } from './activity.ts';
import { askForSecrets, mergeConfig, openForChange, sealDestination } from './destination.ts';
import type { ExportFields } from './create-export.ts';
import { changeFilters } from './filters.ts';
import { changeDeadline, checkDeadline } from './deadline.ts';
import { checkKeys, checkMode, modeIsFixed } from './mode.ts';
import { checkCsvArrays, checkEventFilters, checkTableStays, type ExportRules } from './rules.ts';
import { checkWindow, windowOf } from './schedule.ts';

/** The changes of a request; an undefined field keeps its value. */
export interface UpdateExportInput extends Changes<ExportFields>, CadenceInput {
  readonly destination?:
    | { readonly type?: string | undefined; readonly config?: DestinationConfig | undefined }
    | undefined;
  readonly settings?: Parameters<typeof changeSettings>[1] | undefined;
}

/** Every problem of a change, and what was found on the way. */
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
    ...checkMode(rules, {
      ...settings,
      model: before.model,
      config: destination.value.config,
    }),
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
    const locked = await lockExportNow(tx, id);
    if (!locked) throw notFound();
    const { batchExport: before, now } = locked;
    const examined = examineChange(context, rules, before, input);
    const { parsed, destination, query, startAt, endAt, settings, problems } = examined;
    if (!parsed.ok || problems.length > 0) throw new Refusal(...problems);

    if (settings.mode !== before.mode && (await hasRuns(tx, id))) {
      throw new Refusal(modeIsFixed(before.mode));
    }
    if (hasMoved(rules, before, destination.value)) await move(tx, rules, id, destination.value);
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
    if (mayFix(before, after)) await healNow(tx, id);
    if (after.healForHours > before.healForHours) {
      await healFailed(tx, id, after.healForHours);
    }
    return changeExport(tx, actor, 'updated', before, after);
  });
}

type Changeable = Pick<BatchExport, 'destination' | 'dslQuery' | 'filters' | 'transformations'>;

/** Says whether a change of an export can end what its runs failed with. */
function mayFix(before: Changeable, after: Changeable): boolean {
  const names = ['destination', 'dslQuery', 'filters', 'transformations'] as const;
  return names.some((name) => !isDeepStrictEqual(before[name], after[name]));
}

/** If the place changed, open uploads must be aborted at the former place. */
function hasMoved(
  rules: ExportRules,
  { destination }: BatchExport,
  { type, config }: BatchExport['destination'],
): boolean {
  if (config === destination.config) return false;
  return rules.placeOf(type, destination.config) !== rules.placeOf(type, config);
}

/** If the export returns to a former place, the files there are its current files again. */
async function move(
  tx: Sql,
  rules: ExportRules,
  id: string,
  { type, config }: BatchExport['destination'],
): Promise<void> {
  const place = rules.placeOf(type, config);
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
  settings: {
    cadence: Cadence;
    paused: boolean;
    startAt: Timestamp | null;
    endAt: Timestamp | null;
  },
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
  const change = input.destination.config;
  const { current, isDamaged } = openForChange(context.secrets, before.id, before.destination);
  const missing = isDamaged ? askForSecrets(rules, type, change) : [];
  if (missing.length > 0) return { value: before.destination, problems: [...fixed, ...missing] };
  const merged = rules.encloseConfig(type, mergeConfig(current, change), before.teamId);
  const checked = rules.checkDestination(type, merged);
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
  return {
    value: keepsSecrets ? { ...sealed, secrets: before.destination.secrets } : sealed,
    problems,
  };
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
  const isSame =
    input.dslQuery === undefined &&
    transformations === before.transformations &&
    mode === before.mode;
  const { dslQuery, filters, problems } = changeFilters(rules, before, input);
  const { querySchema } = before;
  if (problems.length > 0) return { dslQuery, filters, querySchema, problems };
  const isKept = isSame && dslQuery === before.dslQuery;
  if (isKept) return { dslQuery, filters, querySchema, problems };
  if (dslQuery === null) return { dslQuery, filters, querySchema: null, problems };
  const checked = rules.checkQuery(dslQuery, before.model, transformations);
  return checked.ok
    ? {
        ...{ dslQuery, filters, querySchema: checked.schema },
        problems: checkKeys(mode, checked.missingKeys),
      }
    : { dslQuery, filters, querySchema, problems: checked.problems };
}

/** @returns a problem if a request says another value of a field that cannot change */
export function checkFixed(attr: string, current: string, said: string | undefined): Problem[] {
  if (said === undefined || said === current) return [];
  const detail = `This field cannot change: leave it out or send "${current}".`;
  return [{ code: 'invalid_input', detail, attr }];
}
