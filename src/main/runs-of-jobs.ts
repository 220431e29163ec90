import type { Config } from '../foundation/config/config.ts';
import { hideValues } from '../foundation/domain/hide-values.ts';
import type { RunOfJob } from '../state/queue/dashboard.ts';
import type { Sql } from '../state/store/database/database.ts';
import { findNamedRuns } from '../state/store/runs/run-names.ts';

/** Facts of runs that the queue dashboard shows. It reads them when it is viewed, so a run costs nothing more. */
export async function findRunsOfJobs(
  {
    config,
    context,
  }: {
    readonly config: Pick<Config, 'PUBLIC_URL'>;
    readonly context: { readonly db: Sql };
  },
  runIds: readonly string[],
): Promise<readonly RunOfJob[]> {
  const page = `${config.PUBLIC_URL?.replace(/\/+$/, '') ?? ''}/console/`;
  return (await findNamedRuns(context.db, runIds)).map(({ exportId, teamId, ...run }) => ({
    ...run,
    error: run.error && hideValues(run.error),
    link: `${page}#/${teamId}/exports/${exportId}/runs/${run.id}`,
  }));
}
