import { type Static, type TProperties, Type } from 'typebox';
import { exportHealths } from '../../../foundation/domain/batch-export.ts';
import type { ExportSearch, ExportSortKey } from '../../../state/store/exports/export-lists.ts';
import type { HealthCounts } from '../../../state/store/exports/export-states.ts';
import { PageQuery } from '../lists/schema.ts';
import { named } from '../schemas/shapes.ts';

export const Health = Type.Enum([...exportHealths], {
  description:
    'failing: the latest run that ended has failed. late: an interval has missed its deadline; without a deadline, the data is more than two intervals and six minutes old. incomplete: some intervals have no data. paused: a person paused it, or Sluice paused it and a run has succeeded since. fine: none of these.',
});

export const ExportListQuery = Type.Object({
  ...PageQuery,
  health: Type.Optional(
    Type.Array(Type.Enum([...exportHealths]), { description: 'May be repeated.' }),
  ),
  search: Type.Optional(
    Type.String({
      maxLength: 400,
      description: 'Part of the name, or the whole id; case does not matter.',
    }),
  ),
  ordering: Type.Optional(
    Type.Enum(
      ['created_at', '-created_at', 'name', '-name', 'health', '-health', 'last_run', '-last_run'],
      {
        description:
          'Default -created_at. health: the most urgent first. last_run: by the creation of the newest run; exports without a run are last.',
      },
    ),
  ),
});

/** Null if the request asks for all exports, newest first. */
export function searchOf(query: Static<typeof ExportListQuery>): ExportSearch | null {
  const { health = null, search = '', ordering = '-created_at' } = query;
  if (health === null && search === '' && ordering === '-created_at') return null;
  return {
    healths: health,
    search: search === '' ? null : search,
    orderBy: ordering.replace('-', '') as ExportSortKey,
    descending: ordering.startsWith('-'),
  };
}

const Count = Type.Integer({ minimum: 0 });

export const ExportHealthCounts = named(
  'ExportHealthCounts',
  Type.Object(
    {
      total: Count,
      ...(Object.fromEntries(exportHealths.map((health) => [health, Count])) as Record<
        (typeof exportHealths)[number],
        typeof Count
      >),
    } satisfies TProperties,
    {
      description:
        'How many exports have each health. Each export has one, so they add up to total.',
      examples: [{ total: 500, failing: 3, late: 2, incomplete: 1, paused: 2, fine: 492 }],
    },
  ),
);

export function countsView(counts: HealthCounts): Static<typeof ExportHealthCounts> {
  const total = exportHealths.reduce((sum, health) => sum + counts[health], 0);
  return { total, ...counts };
}
