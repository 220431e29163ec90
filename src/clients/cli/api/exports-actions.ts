import { type CliDeps, CliError, exitCodes } from '../deps.ts';
import { paintFor, plain, tableLines } from '../text.ts';
import { type Api, quoted } from './api.ts';
import { confirm } from './confirm.ts';
import { readFields } from './export-fields.ts';
import { readSpec, type SpecOptions } from './export-spec.ts';
import { detailLines, exportLines, testLines } from './export-text.ts';
import { findExport, listExports } from './find-export.ts';
import { type Health, healthOf, healthStates } from './health.ts';
import type { Json } from './json.ts';
import { type ApiOptions, openApi } from './open-api.ts';
import type { BatchExport } from './types.ts';

/** The destination's steps each have a time limit of the service's own. */
const testPatienceMs = 180_000;
const previewPatienceMs = 90_000;

export async function list(deps: CliDeps, options: ApiOptions & { state?: string }) {
  const { state } = options;
  if (state !== undefined && !healthStates.includes(state as Health)) {
    throw new CliError(`--state must be one of ${healthStates.join(', ')}.`, exitCodes.misused);
  }
  const api = openApi(deps, options);
  const all = await listExports(api);
  const now = api.serviceTime() ?? 0;
  const shown = all.filter((one) => state === undefined || healthOf(one, now) === state);
  print(deps, options, shown, () => exportLines(shown, now, paintFor(deps.terminal)));
}

export async function get(deps: CliDeps, name: string, options: ApiOptions) {
  const api = openApi(deps, options);
  show(deps, options, api, await findExport(api, name));
}

export async function create(deps: CliDeps, options: ApiOptions & SpecOptions) {
  const api = openApi(deps, options);
  const fields = await readFields(api);
  const spec = await readSpec(deps.terminal, options, fields);
  // The commands find exports by name, and a script that runs again must not make a second one.
  const body = fields.onlyCreate.includes('unique_name') ? { unique_name: true, ...spec } : spec;
  show(deps, options, api, await api.call('post', '/batch_exports', { body }));
}

export async function update(deps: CliDeps, name: string, options: ApiOptions & SpecOptions) {
  const api = openApi(deps, options);
  const fields = await readFields(api);
  const { id, destination } = await findExport(api, name);
  const body = await readSpec(deps.terminal, options, fields, destination);
  const changed = await api.call('patch', '/batch_exports/{id}', { path: { id }, body });
  show(deps, options, api, changed);
}

export async function pause(deps: CliDeps, name: string, options: ApiOptions) {
  const api = openApi(deps, options);
  const { id } = await findExport(api, name);
  const paused = await api.call('post', '/batch_exports/{id}/pause', { path: { id }, body: {} });
  print(deps, options, paused, () => [`Paused ${quoted(paused.name)}. Live runs finish.`]);
}

export async function unpause(
  deps: CliDeps,
  name: string,
  options: ApiOptions & { backfill?: boolean },
) {
  const api = openApi(deps, options);
  const { id } = await findExport(api, name);
  const { backfill = false } = options;
  const after = await api.call('post', '/batch_exports/{id}/unpause', {
    path: { id },
    body: { backfill },
    optionOf: { backfill: '--backfill' },
  });
  print(deps, options, after, () => [
    `Unpaused ${quoted(after.name)}. Next run: ${after.next_run_at ?? 'none'}.`,
    ...(after.backfill_id ? [`Backfill ${after.backfill_id} exports the missed intervals.`] : []),
  ]);
}

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
  const patienceMs = previewPatienceMs;
  const { id, body } = await readUnsaved(deps, api, name, options);
  const { columns, rows } = await (id === null
    ? api.call('post', '/batch_exports/preview', { body, patienceMs })
    : isSaved(options)
      ? api.call('get', '/batch_exports/{id}/preview', { path: { id }, patienceMs })
      : api.call('post', '/batch_exports/{id}/preview', { path: { id }, body, patienceMs }));
  const shown = rows.slice(0, options.limit);
  print(deps, options, { columns, rows: shown }, () =>
    shown.length === 0
      ? ['No rows.']
      : tableLines(
          columns.map((column) => plain(column.name)),
          shown.map((row) => row.map(cellOf)),
          paintFor(deps.terminal),
        ),
  );
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
    throw new CliError('Name an export, or use --file or --set.', exitCodes.misused);
  }
  const found = name === undefined ? null : await findExport(api, name);
  if (isSaved(options)) return { id: found?.id ?? null, body: {} };
  const body = await readSpec(deps.terminal, options, await readFields(api), found?.destination);
  return { id: found?.id ?? null, body };
}

/** Wider values would make the table hard to read; JSON has all of them. */
const widestCell = 60;

function cellOf(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > widestCell ? `${text.slice(0, widestCell - 1)}…` : text;
}

function show(deps: CliDeps, options: ApiOptions, api: Api, shown: BatchExport) {
  const now = api.serviceTime() ?? 0;
  print(deps, options, shown, () => detailLines(shown, now, paintFor(deps.terminal)));
}

/** The answer as one line of JSON, or as lines for people. */
export function print(
  deps: CliDeps,
  { json }: ApiOptions,
  value: unknown,
  lines: () => readonly string[],
): void {
  if (json) deps.print(JSON.stringify(value));
  else for (const line of lines()) deps.print(line);
}
