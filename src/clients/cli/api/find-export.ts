import { CliError } from '../deps.ts';
import { type Api, quoted, readAll } from './api.ts';
import type { BatchExport, ExportSummary } from './types.ts';

const pageSize = 1_000;
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const namedExports = 10;

/** Every export of the project in its short form, newest first. */
export function listSummaries(api: Api): Promise<readonly ExportSummary[]> {
  return readAll((offset) =>
    api.call('get', 'batch_exports/summaries', { query: { limit: pageSize, offset } }),
  );
}

/** Every export of the project, newest first. */
export function listExports(api: Api): Promise<readonly BatchExport[]> {
  return readAll((offset) =>
    api.call('get', 'batch_exports', { query: { limit: pageSize, offset } }),
  );
}

/** @throws CliError if there is no export with this name or id, or if several have the name */
export async function findExport(api: Api, nameOrId: string): Promise<BatchExport> {
  const read = (id: string) =>
    api.call('get', 'batch_exports/{id}', {
      path: { id },
      notFound: `There is no export ${id} in this project. \`sluice exports list\` shows them.`,
    });
  if (uuid.test(nameOrId)) return read(nameOrId);
  const all = await listSummaries(api);
  const same = all.filter(({ name }) => name === nameOrId);
  const [only] = same;
  if (!only) {
    throw new CliError(`There is no export ${quoted(nameOrId)} in this project. ${suggest(all)}`);
  }
  if (same.length === 1) return read(only.id);
  const ids = same.map(({ id }) => id).join(', ');
  throw new CliError(`${same.length} exports are named ${quoted(nameOrId)}. Use an id: ${ids}.`);
}

function suggest(all: readonly ExportSummary[]): string {
  if (all.length === 0) return 'It has none; create one with `sluice exports create`.';
  const names = all.slice(0, namedExports).map(({ name }) => quoted(name));
  const more = all.length > names.length ? `, and ${all.length - names.length} more` : '';
  return `It has ${names.join(', ')}${more}.`;
}
