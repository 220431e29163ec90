import { keyNames } from '../../../foundation/domain/file-name.ts';
import {
  type DestinationConfig,
  readFileSettings,
} from '../../../foundation/domain/file-settings.ts';
import { checkKeyTemplate, renderKeyTemplate } from '../../../foundation/domain/key-template.ts';
import { fileKey } from '../../../foundation/domain/object-keys.ts';
import { type Timestamp, toTimestamp } from '../../../foundation/domain/time.ts';
import { boundaryAtOrBefore } from '../../scheduling/boundary.ts';
import { type CadenceInput, parseCadence } from '../../scheduling/parse-cadence.ts';
import { nextRunAt } from '../../scheduling/plan.ts';
import { openSchedule } from '../../scheduling/schedule.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import { windowOf } from './schedule.ts';

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
