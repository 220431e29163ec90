import { type Static, type TProperties, Type } from 'typebox';
import { exportHealths } from '../../../foundation/domain/batch-export.ts';
import type { ExportSearch, ExportSortKey } from '../../../state/store/exports/export-lists.ts';
import type { HealthCounts } from '../../../state/store/exports/export-states.ts';
import { PageQuery } from '../lists.ts';
import { BatchExportRun } from '../runs/schema.ts';
import { named, OptionalText, Ref, Resource } from '../shapes.ts';
import { BatchExport } from './schema.ts';

export const ExportListQuery = Type.Object({
  ...PageQuery,
  health: Type.Optional(
    Type.Array(Type.Enum([...exportHealths]), { description: 'May be repeated.' }),
  ),
  search: OptionalText({
    maxLength: 400,
    description: 'Part of the name, or the whole id; case does not matter.',
  }),
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

const fields = [
  ...(['id', 'team_id', 'name', 'model', 'mode', 'interval', 'timezone', 'paused'] as const),
  ...([
    'paused_reason',
    'next_run_at',
    'high_water_mark',
    'unsettled_from',
    'late_since',
    'missing',
  ] as const),
  ...(['healing', 'health', 'health_reason', 'failure_streak', 'last_success_at'] as const),
] as const;

const runFields = [
  ...(['id', 'status', 'superseded', 'data_interval_start', 'data_interval_end'] as const),
  ...(['attempt', 'max_attempts', 'next_attempt_at', 'step', 'purpose', 'element'] as const),
] as const;

const placeFields = ['bucket_name', 'directory', 'prefix'] as const;

const { latest_error: latestError } = BatchExportRun.properties;

const RunSummary = Resource('BatchExportRunSummary', 'A run in a summary of its export.', {
  ...pick(BatchExportRun.properties, runFields),
  latest_error: { ...latestError, description: 'The code of the error; null without one.' },
});

const { destination } = BatchExport.properties;

export const BatchExportSummary = Resource(
  'BatchExportSummary',
  'An export as a list shows it: its health and its latest runs, not its settings.',
  {
    ...pick(BatchExport.properties, fields),
    destination: {
      ...destination,
      description: 'Its type. The config has only the bucket or directory, and the prefix.',
    },
    latest_runs: Type.Array(Ref(RunSummary), { description: 'The 10 newest, newest first.' }),
  },
);

export function summaryOf(shown: Static<typeof BatchExport>): Static<typeof BatchExportSummary> {
  const { type, config } = shown.destination;
  const shownFields = placeFields.filter((name) => name in config);
  return {
    ...pick(shown, fields),
    destination: { type, config: pick(config, shownFields) },
    latest_runs: shown.latest_runs.map((run) => ({
      ...pick(run, runFields),
      latest_error: run.latest_error?.split(':', 1)[0] ?? null,
    })),
  };
}

function pick<T extends object, Name extends keyof T>(whole: T, names: readonly Name[]) {
  return Object.fromEntries(names.map((name) => [name, whole[name]])) as Pick<T, Name>;
}
