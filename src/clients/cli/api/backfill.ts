import { setTimeout as sleep } from 'node:timers/promises';
import { confirm, print } from '../answer.ts';
import { type CliDeps, CliError, exitCodes } from '../deps.ts';
import { count, paintFor, plural, shortTime, tableLines } from '../text.ts';
import { type Api, keepAsking, quoted } from './api.ts';
import { createProgress } from './progress.ts';
import { readRange } from './time-range.ts';
import type { AnswerOf, Backfill } from './types.ts';
import type { Called } from './verb.ts';

type Begun = AnswerOf<'post', 'batch_exports/{id}/backfill'>;
type Preview = Extract<Begun, { dry_run: true }>;

const pollMs = 1_000;
const shownIntervals = 10;

/** `sluice backfill`: exports a range of the past, and shows how far it is. */
export async function backfill(called: Called<Begun>): Promise<null> {
  const { deps, api, given, isJson } = called;
  const { isNewestFirst, isDryRun = false } = given;
  const range = readRange(api, given);
  const send = (isPreview: boolean, shownRows: number | null = null) =>
    called.send({
      ...range,
      ...(isNewestFirst ? { order: 'newest_first' } : {}),
      ...(isPreview ? { dry_run: true } : {}),
      ...(shownRows === null ? {} : { shown_rows: shownRows }),
    });
  const show = (answer: unknown, lines: () => readonly string[]) => {
    print(deps, { json: isJson }, answer, lines);
    return null;
  };
  let shownRows: number | null = null;
  if (given.missing_rows === 'drop' && !isDryRun) {
    const preview = await send(true);
    if (!('dry_run' in preview)) throw new CliError(`${api.url} did not preview the backfill.`);
    await confirmRemoval(deps, preview, given.yes === true);
    shownRows = preview.totals.would_go;
  }
  const begun = await send(isDryRun === true, shownRows);
  if ('dry_run' in begun) return show(begun, () => previewLines(begun, deps));
  const { backfill_id: backfillId, backfill_total_runs: total = 0 } = begun;
  if (backfillId === undefined) throw new CliError(`${api.url} did not name the backfill.`);
  if (!given.waits) {
    return show({ id: backfillId, total_runs: total }, () => [
      `Backfill ${backfillId} has begun: ${plural(total, 'run')}.`,
    ]);
  }
  const path = { batch_export_id: String(given.id), id: backfillId };
  const ended = await waitForBackfill(deps, api, path);
  show(ended, () => [summaryOf(ended)]);
  if (ended.failed_runs > 0 || ended.status === 'Cancelled') {
    throw new CliError(
      ended.status === 'Cancelled'
        ? (ended.stopped_reason ?? null) === null
          ? 'The backfill was cancelled.'
          : `The backfill stopped itself, because its runs failed in a row. ${ended.stopped_reason}`
        : `${plural(ended.failed_runs, 'run')} failed. \`sluice runs list ${quoted(called.batchExport.name)} --status Failed,FailedRetryable\` says why.`,
    );
  }
  return null;
}

/** Asks before delivered rows are removed, with their number. @throws CliError unless the person agrees */
export async function confirmRemoval(
  { terminal }: CliDeps,
  preview: Preview,
  yes: boolean,
): Promise<void> {
  const { would_go: rows, would_go_is: is } = preview.totals;
  const across = `${plural(preview.total_runs, 'interval')} from ${shortTime(preview.start_at)} to ${shortTime(preview.end_at)}`;
  if (is === 'exact' && rows === 0) return;
  await confirm(terminal, `Remove ${removedRows(preview)} from the files of ${across}?`, yes);
}

function removedRows({ totals: { would_go: rows, would_go_is: is } }: Preview): string {
  if (rows === null) return 'an unknown number of delivered rows';
  const delivered = plural(rows, 'delivered row');
  return is === 'exact' ? delivered : `at least ${delivered}`;
}

function previewLines(preview: Preview, { terminal }: CliDeps): readonly string[] {
  const { intervals, total_runs: total, estimated_rows: rows, estimated_bytes: bytes } = preview;
  const shown = intervals.slice(0, shownIntervals);
  const { totals } = preview;
  const hasRows = totals.delivered_rows > 0;
  const table = shown.map((one) => [
    shortTime(one.start),
    shortTime(one.end),
    ...(hasRows ? [count(one.delivered_rows), numberText(one.rows_now), goingText(one)] : []),
  ]);
  const columns = ['INTERVAL FROM', 'TO', ...(hasRows ? ['DELIVERED', 'NOW', 'WOULD GO'] : [])];
  const more = total - shown.length;
  const about =
    rows === null ? '' : `, about ${plural(rows, 'row')} and ${plural(bytes ?? 0, 'byte')}`;
  return [
    `${plural(total, 'run')} from ${shortTime(preview.start_at)} to ${shortTime(preview.end_at)}${about}; ${preview.skipped} skipped.`,
    ...(shown.length > 0 ? tableLines(columns, table, paintFor(terminal)) : []),
    ...(more > 0 ? [`and ${more} more`] : []),
    ...(hasRows
      ? [
          `In all: ${plural(totals.delivered_rows, 'row')} delivered, ${goingText(totals)} would go.`,
        ]
      : []),
    ...(totals.left_out === null ? [] : [totals.left_out]),
    ...(totals.would_go === 0 || totals.would_go === null ? [] : [whatGoes]),
    'Nothing was started (--dry-run).',
  ];
}

const whatGoes =
  'Without --missing-rows drop, the runs of intervals whose delivered rows are missing fail, and their files stay.';

const numberText = (value: number | null) => (value === null ? '-' : count(value));

function goingText({
  would_go: rows,
  would_go_is: is,
}: Pick<Preview['totals'], 'would_go' | 'would_go_is'>): string {
  if (rows === null) return 'unknown';
  const { text } = count(rows);
  return is === 'exact' ? text : `at least ${text}`;
}

/** Until it has ended; the person may leave, and the service goes on. */
async function waitForBackfill(
  { terminal }: CliDeps,
  api: Api,
  path: { readonly batch_export_id: string; readonly id: string },
): Promise<Backfill> {
  const progress = createProgress(terminal);
  try {
    for (;;) {
      const now = await keepAsking(terminal, () =>
        api.call('get', 'batch_exports/{batch_export_id}/backfills/{id}', { path }),
      );
      const { finished_runs: finished, failed_runs: failed, total_runs: total } = now;
      const eta =
        now.eta === null || finished === total ? '' : `, ends about ${shortTime(now.eta)}`;
      progress.show(
        now.status === 'Completed' ? 1 : now.progress,
        `${finished}/${plural(total, 'run')}${failed > 0 ? `, ${failed} failed` : ''}${eta}`,
      );
      if (now.status !== 'Running') return now;
      await sleep(pollMs, undefined, { signal: terminal.signal });
    }
  } catch (error) {
    if (!terminal.signal.aborted) throw error;
    throw new CliError(
      `Stopped waiting. Backfill ${path.id} goes on in the service.`,
      exitCodes.failed,
    );
  } finally {
    progress.end();
  }
}

function summaryOf(backfill: Backfill): string {
  const { id, status, finished_runs, failed_runs, total_runs, records_completed: rows } = backfill;
  const done = finished_runs - failed_runs;
  if (total_runs === 0) return `Backfill ${id}: there was nothing to export.`;
  const size = `${plural(rows, 'row')}, ${plural(backfill.bytes_exported, 'byte')}`;
  const none =
    rows === 0 && done > 0
      ? ' The source has no rows in these intervals for this export: check the range, the query and the event filters.'
      : '';
  return `Backfill ${id}: ${status}, ${done} of ${plural(total_runs, 'run')} done, ${size}.${none}`;
}
