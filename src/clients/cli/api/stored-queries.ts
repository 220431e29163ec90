import type { Api } from './api.ts';
import { RefusedRequest } from './explain.ts';
import type { WantedExport } from './exports-file.ts';
import { isRecord, type Json } from './json.ts';
import type { BatchExport } from './types.ts';

/** The names of the query in a file: the second is PostHog's. */
export const queryNames: ReadonlySet<string> = new Set(['dsl_query', 'hogql_query']);

/**
 * The queries of a file, as the service stores them: with the conditions of filters. By the name of the export, and only of
 * those that are stored and have filters.
 */
export async function readStoredQueries(
  api: Api,
  wanted: readonly WantedExport[],
  stored: readonly BatchExport[],
): Promise<ReadonlyMap<string, string | null>> {
  const queries = new Map<string, string | null>();
  for (const { name, spec } of wanted) {
    const saved = stored.find((one) => one.name === name);
    const query = spec.dsl_query === undefined ? spec.hogql_query : spec.dsl_query;
    const filters = spec.filters === undefined ? saved?.filters : spec.filters;
    if (!saved || query === undefined || query === saved.dsl_query || !hasSome(filters)) continue;
    const body: Json = { model: saved.model, dsl_query: query, filters };
    try {
      queries.set(name, (await api.call('post', 'batch_exports/query', { body })).dsl_query);
    } catch (error) {
      // The change itself is refused with the reason.
      if (!(error instanceof RefusedRequest)) throw error;
    }
  }
  return queries;
}

const hasSome = (filters: unknown): boolean =>
  Array.isArray(filters) && filters.some((one) => isRecord(one));
