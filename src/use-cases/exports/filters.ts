import type { Problem } from '../../domain/problem.ts';
import type { PropertyFilter } from '../../domain/property-filter.ts';
import type { ExportRules } from './rules.ts';

/** What a request says about the rows of an export; undefined: nothing. */
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
 * The query of an export with the conditions of its filters, after a change. A new query must not lose them silently:
 * it has them, or the request says what becomes of the filters.
 */
export function changeFilters(
  { applyFilters, models }: Pick<ExportRules, 'applyFilters' | 'models'>,
  before: Query,
  { dslQuery: given, filters }: Asked,
): Omit<Query, 'model'> & { readonly problems: readonly Problem[] } {
  const dslQuery = given === undefined ? before.dslQuery : given;
  const kept = { dslQuery, filters: before.filters, problems: [] };
  const isNone = filters === undefined || filters === null || filters.length === 0;
  if (isNone && before.filters === null) return kept;
  const model = models.find(({ name }) => name === before.model);
  if (!model) throw new Error(`there is no model ${before.model}`);
  if (filters === undefined) {
    if (given === undefined || before.filters === null) return kept;
    const whole = applyFilters(given, [], before.filters, model);
    const isWhole = whole.ok && whole.dslQuery === given;
    return isWhole ? kept : { ...kept, problems: [losesFilters] };
  }
  const after = isNone ? null : filters;
  const changed = applyFilters(dslQuery, before.filters ?? [], after ?? [], model);
  return changed.ok
    ? { dslQuery: changed.dslQuery, filters: after, problems: [] }
    : { ...kept, problems: changed.problems };
}

const losesFilters: Problem = {
  code: 'required',
  detail:
    'The export has filters, and this dsl_query lacks their conditions. Send filters too: the ones that it is to have, or null for none.',
  attr: 'filters',
};
