import { type CliDeps, misused } from '../deps.ts';
import { count, paintFor, shortTime, tableLines } from '../text.ts';
import { readNewest } from './api.ts';
import { confirmRemoval } from './backfill.ts';
import { runLines } from './export-text.ts';
import { print } from './print.ts';
import { findExport } from './find-export.ts';
import { type ApiOptions, openApi } from './open-api.ts';
import type { QueryOf, Run } from './types.ts';

const pageSize = 1_000;
const optionOf = { status: '--status', limit: '--limit', missing_rows: '--missing-rows' };
type RunQuery = QueryOf<'get', '/batch_exports/{batch_export_id}/runs'>;

export async function list(
  deps: CliDeps,
  name: string,
  options: ApiOptions & { status?: readonly string[]; limit: number },
) {
  const { status, limit } = options;
  if (limit === 0) throw misused('--limit must be at least 1.');
  const api = openApi(deps, options);
  const { id } = await findExport(api, name);
  const filter = status && ({ status } as RunQuery);
  const shown = await readNewest<Run>(limit, (page) =>
    api.call('get', '/batch_exports/{batch_export_id}/runs', {
      path: { batch_export_id: id },
      query: { ...filter, ...page },
      optionOf,
    }),
  );
  print(deps, options, shown, () => runLines(shown, paintFor(deps.terminal)));
}

/** The path of a run, and what it means if there is none. */
async function runAt(deps: CliDeps, name: string, run: string, options: ApiOptions) {
  const api = openApi(deps, options);
  const { id } = await findExport(api, name);
  const notFound = `There is no run ${run} of this export. \`sluice runs list\` shows its runs.`;
  return { api, at: { path: { batch_export_id: id, id: run }, notFound } };
}

export async function retry(
  deps: CliDeps,
  name: string,
  run: string,
  options: ApiOptions & { missingRows?: 'keep' | 'drop'; yes?: boolean },
) {
  const { api, at } = await runAt(deps, name, run, options);
  const { missingRows, yes = false } = options;
  if (missingRows === 'drop') {
    const { data_interval_start: start_at, data_interval_end: end_at } = await api.call(
      'get',
      '/batch_exports/{batch_export_id}/runs/{id}',
      at,
    );
    const preview = await api.call('post', '/batch_exports/{id}/backfill', {
      path: { id: at.path.batch_export_id },
      body: { start_at, end_at, dry_run: true },
    });
    if ('dry_run' in preview) await confirmRemoval(deps, preview, yes);
  }
  const made = await api.call('post', '/batch_exports/{batch_export_id}/runs/{id}/retry', {
    ...at,
    body: missingRows === undefined ? {} : { missing_rows: missingRows },
    optionOf,
  });
  print(deps, options, made, () => [
    `Run ${made.id} exports ${shortTime(made.data_interval_start)} to ${shortTime(made.data_interval_end)} again.`,
  ]);
}

export async function cancel(deps: CliDeps, name: string, run: string, options: ApiOptions) {
  const { api, at } = await runAt(deps, name, run, options);
  await api.call('post', '/batch_exports/{batch_export_id}/runs/{id}/cancel', { ...at, body: {} });
  print(deps, options, { id: run, cancelled: true }, () => [`Cancelled run ${run}.`]);
}

export async function files(deps: CliDeps, name: string, run: string, options: ApiOptions) {
  const { api, at } = await runAt(deps, name, run, options);
  const first = await api.call('get', '/batch_exports/{batch_export_id}/runs/{id}/files', {
    ...at,
    query: { limit: pageSize },
  });
  const all = [...first.results];
  while (all.length < first.count) {
    const { results } = await api.call('get', '/batch_exports/{batch_export_id}/runs/{id}/files', {
      ...at,
      query: { limit: pageSize, offset: all.length },
    });
    if (results.length === 0) break;
    all.push(...results);
  }
  const { manifest, current_run } = first;
  print(deps, options, { files: all, manifest, current_run }, () => {
    if (all.length === 0) return [noFiles(current_run, run)];
    const rows = all.map(({ uri, key, rows: number, bytes, sha256, rejected }) => [
      `${uri ?? key}${rejected ? ' (rejected rows)' : ''}`,
      count(number),
      count(bytes),
      sha256,
    ]);
    const lines = tableLines(['FILE', 'ROWS', 'BYTES', 'SHA-256'], rows, paintFor(deps.terminal));
    return [
      ...lines,
      ...(manifest === null ? [] : [`Manifest: ${manifest.uri ?? manifest.key}`]),
      ...(current_run === run
        ? []
        : [`Run ${current_run} has added rows since, in further files.`]),
    ];
  });
}

function noFiles(currentRun: string | null, run: string): string {
  if (currentRun === null) return 'No files: the interval is not exported.';
  return currentRun === run
    ? 'No files: the interval has no rows.'
    : `No files: run ${currentRun} has replaced them.`;
}
