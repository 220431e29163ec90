import { isDeepStrictEqual } from 'node:util';
import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { type ExportSettings, settingList } from '../../../foundation/domain/export-settings.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import {
  type Change,
  type NewActivity,
  newActivity,
  recordActivity,
} from '../../../state/store/exports/activity.ts';
import {
  type BatchExportSettings,
  updateBatchExport,
} from '../../../state/store/exports/exports.ts';
import { appendLogEntries, type LogLevel } from '../../../state/store/exports/log-entries.ts';
import type { Actor } from '../context.ts';

type Described = ExportSettings &
  Pick<BatchExport, 'name' | 'destination' | 'cadence' | 'model' | 'dslQuery' | 'transformations'> &
  Pick<BatchExport, 'paused' | 'lastPausedAt' | 'pausedReason' | 'startAt' | 'endAt'>;

const fields: readonly (readonly [string, (batchExport: Described) => unknown])[] = [
  ['name', (e) => e.name],
  ['destination', (e) => ({ type: e.destination.type, config: e.destination.config })],
  ['interval', (e) => e.cadence.interval],
  ['timezone', (e) => e.cadence.timezone],
  ['offset_day', (e) => e.cadence.offsetDay],
  ['offset_hour', (e) => e.cadence.offsetHour],
  ['model', (e) => e.model],
  ['dsl_query', (e) => e.dslQuery],
  ['transformations', (e) => e.transformations],
  ['paused', (e) => e.paused],
  ['last_paused_at', (e) => e.lastPausedAt],
  ['paused_reason', (e) => e.pausedReason],
  ['start_at', (e) => e.startAt],
  ['end_at', (e) => e.endAt],
  ...settingList.map(
    ({ field, name }) => [field, (batchExport: Described) => batchExport[name]] as const,
  ),
];

/** The changes between two states of an export. A secret's value is masked. */
function changesBetween(before: Described | null, after: Described): Change[] {
  const changes: Change[] = fields
    .map(([field, read]) => ({ field, before: before ? read(before) : null, after: read(after) }))
    .filter((change) => !isDeepStrictEqual(change.before, change.after));
  const [sealedBefore, sealedAfter] = [before?.destination.secrets, after.destination.secrets];
  if (!isDeepStrictEqual(sealedBefore ?? null, sealedAfter)) {
    const shown = (box: Buffer | null | undefined) => (box ? '********' : null);
    const [was, is] = [shown(sealedBefore), shown(sealedAfter)];
    changes.push({ field: 'destination secrets', before: was, after: is });
  }
  return changes;
}

const presets: Readonly<Record<string, unknown>> = {
  ...{ timezone: 'UTC', offset_day: 0, offset_hour: 0, transformations: false, paused: false },
  ...Object.fromEntries(settingList.map((setting) => [setting.field, setting.default])),
};

/** @param usual the config of a destination that says nothing */
export function changesOfNew(created: Described, usual: Readonly<Record<string, unknown>>) {
  const { destination } = created;
  const config = Object.fromEntries(
    Object.entries(destination.config).filter(
      ([name, value]) => !isDeepStrictEqual(value, usual[name]),
    ),
  );
  return changesBetween(null, { ...created, destination: { ...destination, config } }).filter(
    ({ field, after }) => !isDeepStrictEqual(after, presets[field]),
  );
}

export function exportActivity(
  actor: Actor,
  action: string,
  batchExport: Pick<BatchExport, 'id' | 'teamId'>,
  changes: readonly Change[],
): NewActivity {
  return newActivity(actor, action, 'batch_export', batchExport, changes);
}

export async function recordExportActivity(
  tx: Sql,
  ...activity: Parameters<typeof exportActivity>
): Promise<void> {
  const [actor, action, batchExport, changes] = activity;
  await recordActivity(tx, actor, action, 'batch_export', batchExport, changes);
}

/** Changes an export that the transaction has locked, and records who did it. @returns the export after it */
export async function changeExport(
  tx: Sql,
  actor: Actor,
  action: string,
  before: BatchExport,
  settings: BatchExportSettings,
): Promise<BatchExport> {
  const changes = changesBetween(before, { ...before, ...settings });
  return updateBatchExport(tx, before.id, settings, exportActivity(actor, action, before, changes));
}

/**
 * A person lets delivered rows go: a statement says who it was.
 * @param request the id of the backfill or of the run
 * @param shown how many rows they were shown; null: none, or it is not known
 */
export async function noteRemoval(
  tx: Sql,
  actor: Actor | undefined,
  batchExport: Pick<BatchExport, 'id' | 'teamId'>,
  request: string,
  shown: number | null,
): Promise<void> {
  if (actor === undefined) return;
  const change = { field: 'missing_rows', before: null, after: { request, shown } };
  await recordExportActivity(tx, actor, 'missing_rows_dropped', batchExport, [change]);
}

export async function noteInLog(
  sql: Sql,
  { id: exportId, teamId }: Pick<BatchExport, 'id' | 'teamId'>,
  level: LogLevel,
  ...messages: readonly string[]
): Promise<void> {
  const about = { teamId, exportId, runId: null, level };
  await appendLogEntries(
    sql,
    messages.map((message) => ({ ...about, message })),
  );
}
