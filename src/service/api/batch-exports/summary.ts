import { type Static, Type } from 'typebox';
import { BatchExportRun } from '../runs/schema.ts';
import { named, Ref } from '../schemas/shapes.ts';
import { BatchExport } from './schema.ts';

const fields = [
  ...([
    'id',
    'team_id',
    'name',
    'model',
    'mode',
    'interval',
    'timezone',
    'paused',
    'paused_reason',
  ] as const),
  ...(['next_run_at', 'high_water_mark', 'unsettled_from', 'late_since', 'missing'] as const),
  ...(['healing', 'health', 'health_reason', 'failure_streak', 'last_success_at'] as const),
] as const;

const runFields = [
  ...(['id', 'status', 'superseded', 'data_interval_start', 'data_interval_end'] as const),
  ...(['attempt', 'max_attempts', 'next_attempt_at', 'step', 'purpose', 'element'] as const),
] as const;

/** Settings of destinations that say where the files are. */
const placeFields = ['bucket_name', 'directory', 'prefix'] as const;

const { latest_error: latestError } = BatchExportRun.properties;

const RunSummary = named(
  'BatchExportRunSummary',
  Type.Object(
    {
      ...pick(BatchExportRun.properties, runFields),
      latest_error: { ...latestError, description: 'The code of the error; null without one.' },
    },
    { description: 'A run in a summary of its export.' },
  ),
);

const { destination } = BatchExport.properties;

export const BatchExportSummary = named(
  'BatchExportSummary',
  Type.Object(
    {
      ...pick(BatchExport.properties, fields),
      destination: {
        ...destination,
        description: 'Its type. The config has only the bucket or directory, and the prefix.',
      },
      latest_runs: Type.Array(Ref(RunSummary), { description: 'The 10 newest, newest first.' }),
    },
    {
      description:
        'An export as a list shows it: its health and its latest runs, not its settings.',
    },
  ),
);

/** The short form of an export. */
export function summaryOf(shown: Static<typeof BatchExport>): Static<typeof BatchExportSummary> {
  const { type, config } = shown.destination;
  return {
    ...pick(shown, fields),
    destination: {
      type,
      config: pick(
        config,
        placeFields.filter((name) => name in config),
      ),
    },
    latest_runs: shown.latest_runs.map((run) => ({
      ...pick(run, runFields),
      latest_error: run.latest_error?.split(':', 1)[0] ?? null,
    })),
  };
}

function pick<T extends object, Name extends keyof T>(whole: T, names: readonly Name[]) {
  return Object.fromEntries(names.map((name) => [name, whole[name]])) as Pick<T, Name>;
}
