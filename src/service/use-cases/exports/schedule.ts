import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { type Cadence, type Interval, intervals } from '../../../foundation/domain/cadence.ts';
import { keyNames } from '../../../foundation/domain/file-name.ts';
import {
  type DestinationConfig,
  readFileSettings,
} from '../../../foundation/domain/file-settings.ts';
import { checkKeyTemplate, renderKeyTemplate } from '../../../foundation/domain/key-template.ts';
import { fileKey } from '../../../foundation/domain/object-keys.ts';
import type { Problem } from '../../../foundation/domain/problem.ts';
import type { Schedule } from '../../../foundation/domain/schedule.ts';
import {
  ceilInstant,
  type DataInterval,
  floorInstant,
  type Instant,
  type Timestamp,
  toTimestamp,
  toTimestampOrNull,
} from '../../../foundation/domain/time.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { findDecidedIntervals } from '../../../state/store/intervals/decided-intervals.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import { boundaryAtOrBefore, isLocal, nextBoundary, nominalMs } from '../../scheduling/boundary.ts';
import { type CadenceInput, parseCadence } from '../../scheduling/parse-cadence.ts';
import { nextRunAt } from '../../scheduling/plan.ts';
import { type PreviewedInterval, previewIntervals } from '../../scheduling/preview.ts';
import { openSchedule, type Window } from '../../scheduling/schedule.ts';
import { spansToDecide, type Timeline, timelineOf } from '../../scheduling/timeline.ts';
import { firstInstantAt } from '../../scheduling/zone-offset.ts';
import type { Context } from '../context.ts';

/** Ticks are whole milliseconds: a bound with microseconds is rounded inwards. */
export function windowOf(startAt: Timestamp | null, endAt: Timestamp | null): Window {
  return {
    startAt: startAt === null ? null : ceilInstant(startAt),
    endAt: endAt === null ? null : floorInstant(endAt),
  };
}

export function allowedIntervals(minIntervalMinutes: number): readonly Interval[] {
  return intervals.filter((interval) => nominalMs(interval) >= minIntervalMinutes * 60_000);
}

/** The next tick that will run by the current schedule; null if there is none. */
export function nextRunOf(batchExport: BatchExport): Timestamp | null {
  return toTimestampOrNull(nextRunAt(batchExport.schedule));
}

/** Timestamps have one format, so they compare as text. */
export function checkWindow(startAt: Timestamp | null, endAt: Timestamp | null): Problem[] {
  if (startAt === null || endAt === null || endAt > startAt) return [];
  return [{ code: 'invalid_input', detail: 'end_at must be after start_at.', attr: 'end_at' }];
}

export async function previewSchedule(
  context: Context,
  batchExport: BatchExport,
  count: number,
): Promise<readonly PreviewedInterval[]> {
  return previewIntervals(batchExport.schedule, await readNow(context.db), count);
}

/** When the day of a date begins for an export per day or week: at its hour, in its zone. Null for other texts and exports. */
export function beginOfDay(cadence: Cadence, text: string): Instant | null {
  if (!/^\d{4}-\d\d-\d\d$/.test(text) || !isLocal(cadence)) return null;
  const midnight = Date.parse(`${text}T00:00Z`);
  if (Number.isNaN(midnight)) return null;
  return firstInstantAt(cadence.timezone, midnight + (cadence.offsetHour ?? 0) * 3_600_000);
}

/** The bounds of an export's intervals around `range`. Most need no statement: only zone data may have changed them. */
export async function readTimeline(
  sql: Sql,
  exportId: string,
  schedule: Schedule,
  range: DataInterval,
): Promise<Timeline> {
  const spans = spansToDecide(schedule.cadences, range);
  if (spans.length === 0) return timelineOf(schedule, []);
  return timelineOf(schedule, await findDecidedIntervals(sql, exportId, spans));
}

const dayMs = 86_400_000;
/** In most zones one is summer time, the other is not. */
const seasons = [Date.UTC(2024, 0, 10, 12), Date.UTC(2024, 6, 10, 12)];

/**
 * An interval as an export will have them: one that ends within a day in UTC, if there are such. A cadence that is not valid,
 * which other checks refuse, gives a whole day.
 *
 * @param current what the input changes
 */
export function sampleIntervalOf(input: CadenceInput, current?: Cadence): DataInterval {
  const parsed = parseCadence(input, 0, current);
  if (!parsed.ok) return { start: 0, end: dayMs };
  const { cadence } = parsed;
  const samples = seasons.map((season) => {
    const end = nextBoundary(cadence, season);
    return { start: boundaryAtOrBefore(cadence, end - 1), end };
  });
  const [first = { start: 0, end: dayMs }] = samples;
  return samples.find(({ end }) => end % dayMs !== 0) ?? first;
}

interface Planned extends CadenceInput {
  readonly model: string;
  readonly config: DestinationConfig;
  readonly startAt: Timestamp | null;
  readonly endAt: Timestamp | null;
}

interface Format {
  readonly format: string;
  readonly extension: string;
  readonly compressions: Readonly<Record<string, { readonly suffix: string } | undefined>>;
}

/** The first run of an export that would begin now, and the key of its first file. Null: its fields leave that open. */
export async function planFirstFileNow(
  sql: Sql,
  { model, config, startAt, endAt, ...times }: Planned,
  formats: readonly Format[],
): Promise<{ readonly key: string; readonly runAt: Timestamp } | null> {
  const parsed = parseCadence(times, 0);
  const settings = readFileSettings(config);
  const { prefix, fileName, maxFileBytes, partitionBy, format, compression } = settings;
  if (!parsed.ok || checkKeyTemplate(prefix).length > 0) return null;
  const { cadence } = parsed;
  const window = windowOf(startAt, endAt);
  const now = await readNow(sql);
  const end = nextRunAt(openSchedule({ cadence, paused: false, ...window }, now));
  if (end === null) return null;
  const interval = { start: boundaryAtOrBefore(cadence, end - 1), end };
  const values = { interval, table: model, batchExportId: 'id-of-the-export' };
  const names = keyNames(renderKeyTemplate(prefix, values), fileName, interval);
  const folders = partitionBy.map((entry) => `${/\((.*)\)/.exec(entry)?.[1] ?? entry}=…`).join('/');
  const part = maxFileBytes === null ? null : 1;
  const written = formats.find((one) => one.format === format);
  const suffix = written?.compressions[compression ?? '']?.suffix ?? '';
  const key = fileKey(names, 1, part, `${written?.extension ?? ''}${suffix}`, folders);
  return { key, runAt: toTimestamp(end) };
}
