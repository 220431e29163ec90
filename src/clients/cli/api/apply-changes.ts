import { isDeepStrictEqual } from 'node:util';
import { parseTime } from '../../../foundation/domain/parse-time.ts';
import { type Api, RefusedRequest } from './api.ts';
import type { ExportFields } from './export-fields.ts';
import type { WantedExport } from './export-spec.ts';
import { isRecord, type Json } from './json.ts';
import type { BatchExport } from './types.ts';

/** A field that a file says differently than the service. */
export interface Difference {
  /** `destination.config.prefix` */
  readonly field: string;
  readonly before: unknown;
  readonly after: unknown;
}

/**
 * The fields of `spec` that differ from what the service has. A field that `spec` leaves out is no
 * difference, and neither is a secret: the service shows none.
 *
 * @param query the query of `spec` as the service stores it; undefined: as it is
 */
export function differencesOf(
  spec: Json,
  stored: BatchExport,
  fields: ExportFields,
  query?: string | null,
): readonly Difference[] {
  const current = stored as unknown as Json;
  return Object.entries(spec).flatMap(([name, value]): readonly Difference[] => {
    if (name === 'destination' && isRecord(value)) {
      return destinationDifferences(value, stored, fields);
    }
    // The API takes PostHog's name of the query, and answers with its own.
    const isQuery = queryNames.has(name);
    const before = current[isQuery ? 'dsl_query' : name];
    const after = isQuery && query !== undefined ? query : value;
    const same = fields.times.has(name) ? isSameTime(before, after) : isSame(before, after);
    return same ? [] : [{ field: name, before: before ?? null, after }];
  });
}

function destinationDifferences(
  { type, config }: Json,
  { destination, team_id: project }: BatchExport,
  fields: ExportFields,
): readonly Difference[] {
  const facts = fields.destinations.get(destination.type);
  // A property of the type that it gets may be a secret, though the type that it has has no such property.
  const wantedType = fields.destinations.get(String(type ?? destination.type));
  const isSecret = (name: string) => facts?.secrets.has(name) || wantedType?.secrets.has(name);
  const differences: Difference[] = [];
  if (type !== undefined && type !== destination.type) {
    differences.push({ field: 'destination.type', before: destination.type, after: type });
  }
  for (const [name, after] of Object.entries(isRecord(config) ? config : {})) {
    if (isSecret(name)) continue;
    const before = destination.config[name] ?? null;
    // Null removes a property. Only those that have no other default may be null.
    const newValue = after ?? null;
    const isBelow = facts?.belowProject.has(name) && before === `${project}/${newValue}`;
    if (isBelow || isSame(before, newValue)) continue;
    differences.push({ field: `destination.config.${name}`, before, after: newValue });
  }
  return differences;
}

const isSame = (before: unknown, after: unknown) =>
  isDeepStrictEqual(settled(before), settled(after));

/** The API stores an empty list as null. */
const settled = (value: unknown) =>
  Array.isArray(value) && value.length === 0 ? null : (value ?? null);

function isSameTime(before: unknown, after: unknown): boolean {
  const instant = (value: unknown) =>
    typeof value === 'string' ? (parseTime(value)?.timestamp ?? value) : value;
  return isSame(instant(before), instant(after));
}

/** The body of the request that makes the changes; the destination's secrets go with each change of it. */
export function changesOf(spec: Json, differences: readonly Difference[]): Json {
  const names = new Set(differences.map(({ field }) => field.split('.')[0] ?? ''));
  return Object.fromEntries(Object.entries(spec).filter(([name]) => names.has(name)));
}

/** The names of the query in a file: the second is PostHog's. */
export const queryNames: ReadonlySet<string> = new Set(['dsl_query', 'hogql_query']);

/** The queries of stored exports with filters, as the service has them: with the conditions of the filters. */
export async function readStoredQueries(
  api: Api,
  wanted: readonly Pick<WantedExport, 'name' | 'spec'>[],
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
