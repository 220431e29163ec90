import type { Problem } from '../../../foundation/domain/problem.ts';
import type { PropertyFilter } from '../../../foundation/domain/property-filter.ts';
import { type ExportRules, modelGone } from './rules.ts';

/** The fields of a request that select rows; undefined: the request has none. */
interface Asked {
  readonly dslQuery?: string | null | undefined;
  readonly filters?: readonly PropertyFilter[] | null | undefined;
}

/** The query and the filters that an export has. */
interface Query {
  readonly model: string;
  readonly dslQuery: string | null;
  readonly filters: readonly PropertyFilter[] | null;
}

/**
 * The query of an export with the conditions of its filters, after a change. Filters that the request does not mention stay,
 * and a new query gets their conditions. Without filters an unchanged query loses their conditions, and a new one is as it was sent.
 */
export function changeFilters(
  { applyFilters, models }: Pick<ExportRules, 'applyFilters' | 'models'>,
  before: Query,
  { dslQuery: given, filters }: Asked,
): Omit<Query, 'model'> & { readonly problems: readonly Problem[] } {
  const dslQuery = given === undefined ? before.dslQuery : given;
  const unchanged = { dslQuery, filters: before.filters, problems: [] };
  const isNone = filters === undefined || filters === null || filters.length === 0;
  if (isNone && before.filters === null) return unchanged;
  const model = models.find(({ name }) => name === before.model);
  if (!model) return { ...unchanged, problems: [modelGone(before.model)] };
  const after = filters === undefined ? before.filters : isNone ? null : filters;
  const isNew = given !== undefined && given !== before.dslQuery;
  if (isNew && after === null) return { dslQuery, filters: null, problems: [] };
  const gone = filters === undefined ? [] : (before.filters ?? []);
  const changed = applyFilters(dslQuery, gone, after ?? [], model);
  return changed.ok
    ? { dslQuery: changed.dslQuery, filters: after, problems: [] }
    : { ...unchanged, problems: changed.problems };
}
