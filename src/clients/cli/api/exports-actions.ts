import { exportHealths } from '../../../foundation/domain/batch-export.ts';
import { type CliDeps, CliError, misused } from '../deps.ts';
import { cut, paintFor, plain, plural, shortTime, tableLines } from '../text.ts';
import { type Api, quoted } from './api.ts';
import { confirm } from './confirm.ts';
import { readFields } from './export-fields.ts';
import { readSpec, type SpecOptions } from './export-spec.ts';
import { detailLines, exportLines, testLines } from './export-text.ts';
import { findExport, listExports } from './find-export.ts';
import { type Json, textOf } from './json.ts';
import { type ApiOptions, openApi } from './open-api.ts';
import type { AnswerOf, BatchExport, Health } from './types.ts';
import { print } from './print.ts';

/** The destination's steps each have a time limit of the service's own. */
const testPatienceMs = 180_000;
const previewPatienceMs = 90_000;

export async function list(deps: CliDeps, options: ApiOptions & { state?: string }) {
  const { state } = options;
  if (state !== undefined && !exportHealths.includes(state as Health)) {
    throw misused(`--state must be one of ${exportHealths.join(', ')}.`);
  }
  const api = openApi(deps, options);
  const all = await listExports(api);
  const shown = all.filter((one) => state === undefined || one.health === state);
  print(deps, options, shown, () => exportLines(shown, paintFor(deps.terminal)));
}

export async function get(deps: CliDeps, name: string, options: ApiOptions) {
  const api = openApi(deps, options);
  show(deps, options, await findExport(api, name));
}

export async function create(deps: CliDeps, options: ApiOptions & SpecOptions) {
  const api = openApi(deps, options);
  const fields = await readFields(api);
  const spec = await readSpec(deps.terminal, options, fields);
  // The commands find exports by name, and a script that runs again must not make a second one.
  const body = fields.onlyCreate.includes('unique_name') ? { unique_name: true, ...spec } : spec;
  show(deps, options, await api.call('post', '/batch_exports', { body }));
}

export async function update(deps: CliDeps, name: string, options: ApiOptions & SpecOptions) {
  const api = openApi(deps, options);
  const fields = await readFields(api);
  const { id, destination } = await findExport(api, name);
  const body = await readSpec(deps.terminal, options, fields, destination);
  const changed = await api.call('patch', '/batch_exports/{id}', { path: { id }, body });
  show(deps, options, changed);
}

export async function pause(deps: CliDeps, name: string, options: ApiOptions) {
  const api = openApi(deps, options);
  const { id } = await findExport(api, name);
  const paused = await api.call('post', '/batch_exports/{id}/pause', { path: { id }, body: {} });
  print(deps, options, paused, () => [`Paused ${quoted(paused.name)}. Live runs finish.`]);
}

export interface UnpauseOptions extends ApiOptions {
  readonly backfill?: boolean;
  readonly retryMissing?: boolean;
  readonly dryRun?: boolean;
}

/** An unpause leaves out what its options do not ask for, and says so. */
export async function unpause(deps: CliDeps, name: string, options: UnpauseOptions) {
  const api = openApi(deps, options);
  const { id, paused } = await findExport(api, name);
  const { backfill = false, retryMissing = false, dryRun = false } = options;
  const send = (body: Json) =>
    api.call('post', '/batch_exports/{id}/unpause', {
      path: { id },
      body,
      optionOf: { backfill: '--backfill', retry_missing: '--retry-missing' },
    });
  const left = await send({ dry_run: true });
  if (!('dry_run' in left)) throw new CliError(`${api.url} did not preview the unpause.`);
  if (dryRun) {
    print(deps, options, left, () => [
      `${plural(left.missed_intervals, 'interval')} missed while paused (--backfill exports them).`,
      `${missingText(left)} (--retry-missing exports them).`,
      'Nothing was changed (--dry-run).',
    ]);
    return;
  }
  const after = await send({ backfill, retry_missing: retryMissing });
  if ('dry_run' in after) throw new CliError(`${api.url} did not unpause the export.`);
  print(deps, options, after, () => [
    paused
      ? `Unpaused ${quoted(after.name)}. Next run: ${after.next_run_at ?? 'none'}.`
      : `${quoted(after.name)} was not paused: nothing was changed.`,
    ...(after.backfill_id
      ? [`${plural(after.backfill_total_runs ?? 0, 'run')} in backfill ${after.backfill_id}.`]
      : []),
    ...(backfill ? [] : left.missed.map((range) => leftOutLine(after.name, range))),
    // An export that is not paused starts nothing.
    ...((retryMissing && paused) || left.missing.since === null
      ? []
      : [
          `${missingText(left)}. Export them: sluice backfill ${quoted(after.name)} --from ${shortTime(left.missing.since)} --reprocess missing`,
        ]),
  ]);
}

type LeftOut = Extract<AnswerOf<'post', '/batch_exports/{id}/unpause'>, { dry_run: true }>;

const missingText = ({ missing: { count, since } }: LeftOut) =>
  `${plural(count, 'requested interval')} without data${since === null ? '' : ` since ${shortTime(since)}`}`;

const leftOutLine = (name: string, { start, end }: LeftOut['missed'][number]) =>
  `Not exported, because it was paused: ${shortTime(start)} to ${shortTime(end)}. Export it: sluice backfill ${quoted(name)} --from ${shortTime(start)} --to ${shortTime(end)}`;

export async function remove(deps: CliDeps, name: string, options: ApiOptions & { yes?: boolean }) {
  const api = openApi(deps, options);
  const found = await findExport(api, name);
  const what = `Delete the export ${quoted(found.name)} (${found.id})?`;
  await confirm(deps.terminal, what, options.yes ?? false);
  await api.call('delete', '/batch_exports/{id}', { path: { id: found.id } });
  print(deps, options, { id: found.id, deleted: true }, () => [
    `Deleted ${quoted(found.name)}. Its files stay in the bucket.`,
  ]);
}

export async function test(
  deps: CliDeps,
  name: string | undefined,
  options: ApiOptions & SpecOptions,
) {
  const api = openApi(deps, options);
  const patienceMs = testPatienceMs;
  const { id, body } = await readUnsaved(deps, api, name, options);
  const result =
    id === null
      ? await api.call('post', '/batch_exports/test', { body, patienceMs })
      : await api.call('post', '/batch_exports/{id}/test', { path: { id }, body, patienceMs });
  print(deps, options, result, () => testLines(result, paintFor(deps.terminal)));
  if (!result.passed) throw new CliError('The test of the destination failed.');
}

export async function preview(
  deps: CliDeps,
  name: string | undefined,
  options: ApiOptions & SpecOptions & { limit: number },
) {
  const api = openApi(deps, options);
  const { id, body } = await readUnsaved(deps, api, name, options);
  const limit = Math.min(Math.max(options.limit, 1), 100);
  const {
    columns,
    rows,
    left_out: leftOut,
  } = await api.call('post', '/batch_exports/preview', {
    body: { ...body, limit, ...(id === null ? {} : { id }) },
    patienceMs: previewPatienceMs,
  });
  // In the order of a run: the newest rows are the last.
  const shown = options.limit === 0 ? [] : rows.slice(-options.limit);
  print(deps, options, { columns, rows: shown, left_out: leftOut }, () => [
    ...(shown.length === 0
      ? ['No rows.']
      : tableLines(
          columns.map((column) => plain(column.name)),
          shown.map((row) => row.map((value) => cut(textOf(value), 60))),
          paintFor(deps.terminal),
        )),
    ...(leftOut === null ? [] : [leftOut]),
  ]);
}

const isSaved = ({ file, set = [] }: SpecOptions): boolean =>
  file === undefined && set.length === 0;

/** What to try: a saved export (its body is empty), a change of one, or an export that does not exist yet. */
async function readUnsaved(
  deps: CliDeps,
  api: Api,
  name: string | undefined,
  options: SpecOptions,
): Promise<{ readonly id: string | null; readonly body: Json }> {
  if (name === undefined && isSaved(options)) {
    throw misused('Name an export, or use --file or --set.');
  }
  const found = name === undefined ? null : await findExport(api, name);
  if (isSaved(options)) return { id: found?.id ?? null, body: {} };
  const body = await readSpec(deps.terminal, options, await readFields(api), found?.destination);
  return { id: found?.id ?? null, body };
}

function show(deps: CliDeps, options: ApiOptions, shown: BatchExport) {
  print(deps, options, shown, () => detailLines(shown, paintFor(deps.terminal)));
}
