import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { appendLogEntries } from '../../../state/store/exports/log-entries.ts';
import type { Context } from '../context.ts';

/** Writes warnings into the log of an export, for its owner. */
export async function recordWarnings(
  { db }: Pick<Context, 'db'>,
  { id: exportId, teamId }: Pick<BatchExport, 'id' | 'teamId'>,
  warnings: readonly string[],
): Promise<void> {
  const about = { teamId, exportId, runId: null, level: 'WARNING' } as const;
  await appendLogEntries(
    db,
    warnings.map((message) => ({ ...about, message })),
  );
}
