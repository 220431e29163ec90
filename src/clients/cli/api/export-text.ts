import {
  type Cell,
  type Colour,
  count,
  type Paint,
  plural,
  shortName,
  shortTime,
  tableLines,
} from '../text.ts';
import { textOf } from './json.ts';
import type { BatchExport, DestinationTest, Health, Run } from './types.ts';

/** Exports and what belongs to them, as text for people. */

export const healthColours: Readonly<Record<Health, Colour>> = {
  failing: 'red',
  incomplete: 'red',
  late: 'yellow',
  paused: 'dim',
  fine: 'green',
};

export function exportLines(exports: readonly BatchExport[], paint: Paint): readonly string[] {
  const rows = exports.map((one) => {
    const state: Cell = { text: one.health, colour: healthColours[one.health] };
    const upTo = shortTime(one.high_water_mark);
    return [shortName(one.name), state, one.interval, describeDestination(one), upTo, one.id];
  });
  const head = ['NAME', 'STATE', 'INTERVAL', 'DESTINATION', 'COMPLETE UP TO', 'ID'];
  return exports.length === 0 ? ['No exports.'] : tableLines(head, rows, paint);
}

/** `S3 my-bucket/events` */
export function describeDestination({ destination: { type, config } }: BatchExport): string {
  const words = [config.bucket_name ?? config.directory, config.prefix]
    .filter((part) => typeof part === 'string' && part !== '')
    .join('/');
  return words === '' ? type : `${type} ${words}`;
}

/** One line per field; the fields without a value are left out. */
export function detailLines(one: BatchExport, paint: Paint): readonly string[] {
  const { config } = one.destination;
  const { missing, health } = one;
  const fields: [string, string | Cell | null][] = [
    ['name', one.name],
    ['id', one.id],
    ['project', String(one.team_id)],
    ['state', { text: health, colour: healthColours[health] }],
    ['because', one.health_reason],
    ['paused because', health === 'paused' ? null : one.paused_reason],
    ['interval', one.interval],
    ['timezone', one.timezone === 'UTC' ? null : one.timezone],
    ['model', one.model],
    ['query', one.dsl_query],
    ['start', one.start_at && shortTime(one.start_at)],
    ['end', one.end_at && shortTime(one.end_at)],
    ['complete up to', shortTime(one.high_water_mark)],
    ['unsettled from', one.unsettled_from && shortTime(one.unsettled_from)],
    [
      'without data',
      missing.count === 0
        ? null
        : `${plural(missing.count, 'interval')} since ${shortTime(missing.since)}`,
    ],
    ['running', one.latest_runs.find(({ step }) => step?.is_long)?.step?.text ?? null],
    ['healing', healingText(one)],
    ['late rows', lateRowsText(one)],
    ['next run', shortTime(one.next_run_at)],
    ['last success', shortTime(one.last_success_at)],
    ['destination', one.destination.type],
    ...Object.entries(config)
      .filter(([, value]) => value !== null && value !== '')
      .map(([name, value]): [string, string] => [`  ${name}`, textOf(value)]),
  ];
  const shown = fields.flatMap(([name, value]) => (value === null ? [] : [[name, value]]));
  return tableLines(['', ''], shown as (Cell | string)[][], paint).slice(1);
}

/** `3 intervals, next probe 2024-03-01 00:05`; null: nothing heals. */
function healingText({ healing, paused, paused_reason }: BatchExport): string | null {
  if (healing === null) return null;
  const { intervals, next_probe_at: probe } = healing;
  if (paused && paused_reason === null)
    return `${plural(intervals, 'interval')}, once the export is unpaused`;
  return `${plural(intervals, 'interval')}, ${probe === null ? 'starting' : `next probe ${shortTime(probe)}`}`;
}

/** `3 late rows were added on 2024-03-01T01:05:00Z`; null: none. */
function lateRowsText({ late_rows_added: late }: BatchExport): string | null {
  if (late === null) return null;
  const were = late.rows === 1 ? 'was' : 'were';
  return `${plural(late.rows, 'late row')} ${were} added on ${shortTime(late.at)}`;
}

const statusColours: Partial<Record<Run['status'], Colour>> = {
  Completed: 'green',
  Failed: 'red',
  FailedRetryable: 'red',
  Running: 'yellow',
};

/** Such a run has no files. */
const failedStatuses: ReadonlySet<Run['status']> = new Set<Run['status']>([
  'Failed',
  'FailedRetryable',
  'Cancelled',
]);
const none: Cell = { text: '-', atEnd: true };

export function runLines(runs: readonly Run[], paint: Paint): readonly string[] {
  if (runs.length === 0) return ['No runs.'];
  const rows = runs.map((run) => [
    shortTime(run.data_interval_start),
    shortTime(run.data_interval_end),
    { text: statusOf(run), colour: statusColours[run.status] },
    ...(failedStatuses.has(run.status)
      ? [none, none]
      : [count(run.records_completed ?? 0), count(run.bytes_exported)]),
    run.id,
    run.latest_error ?? (run.step?.is_long ? run.step.text : ''),
  ]);
  const head = ['INTERVAL FROM', 'TO', 'STATUS', 'ROWS', 'BYTES', 'RUN', 'ERROR'];
  return tableLines(head, rows, paint);
}

/** `Retrying 5/10 at 2024-03-01T01:05:00Z`: a run between two attempts is not just running. */
function statusOf(run: Run): string {
  const { status, attempt, max_attempts: most, next_attempt_at: next } = run;
  if (next === null || attempt === 0) return status;
  return `Retrying ${attempt}/${most ?? '?'} at ${shortTime(next)}`;
}

export function testLines({ steps }: DestinationTest, paint: Paint): readonly string[] {
  const rows = steps.map(({ step, passed, error, warning }) => {
    const result: Cell = passed
      ? { text: 'ok', colour: 'green' }
      : { text: 'failed', colour: 'red' };
    return [step, result, error ?? (warning === null ? '' : `Warning: ${warning}`)];
  });
  return tableLines(['STEP', 'RESULT', ''], rows, paint);
}
