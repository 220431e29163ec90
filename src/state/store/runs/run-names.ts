import type { RunStatus } from '../../../foundation/domain/run.ts';
import { queryRows } from '../database/statement.ts';

/** A run as an operator recognizes it. */
export interface NamedRun {
  readonly id: string;
  readonly exportId: string;
  readonly teamId: number;
  /** Organization, export and the start of the interval in UTC: `Acme · Orders · 00:25`, with its date if that is not today. */
  readonly name: string;
  readonly status: RunStatus;
  readonly error: string | null;
}

export const findNamedRuns = queryRows<NamedRun, [runIds: readonly string[]]>(`
     select r.id, r.export_id as "exportId", r.team_id as "teamId", r.status, r.latest_error as error,
            concat_ws(' · ', o.name, e.name, to_char(r.data_interval_start at time zone 'UTC',
              case when r.data_interval_end - r.data_interval_start >= interval '23 hours' then 'YYYY-MM-DD'
                   when r.data_interval_start >= date_trunc('day', now(), 'UTC') then 'HH24:MI' else 'YYYY-MM-DD HH24:MI' end)) as name
       from runs r join batch_exports e on e.id = r.export_id join projects p on p.id = r.team_id join organizations o on o.id = p.organization_id
      where r.id = any ($1::uuid[])`);
