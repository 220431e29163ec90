import type { NotificationType } from '../../../foundation/domain/notification.ts';
import { command, queryAny } from '../database/statement.ts';
import { installationId } from '../tenants/tenants.ts';
import { capacityNow } from '../runs/workers.ts';

/** Records one event for the targets of an organization, or of one of its projects, that ask for it. */
export const notifyGroup = command(
  `select notify_group($1, $2, $3, $4)`,
  (
    organizationId: string,
    teamId: number | null,
    type: NotificationType,
    facts: Readonly<Record<string, unknown>>,
  ) => [organizationId, teamId, type, JSON.stringify(facts)],
);

/** It says whose exports it is about. @param organizationId null: several organizations */
export const notifyInstallation = command(
  `select notify_group($1, null, $3, $4::jsonb || coalesce(
       (select jsonb_build_object('organization', jsonb_build_object('id', o.id, 'name', o.name)) from organizations o where o.id = $2), '{}'))`,
  (
    organizationId: string | null,
    type: NotificationType,
    facts: Readonly<Record<string, unknown>>,
  ) => [installationId, organizationId, type, JSON.stringify(facts)],
);

/** Notes that no worker is alive, unless one has reported meanwhile. A trigger notifies the installation's targets, once. */
export const raiseAlarm = command(
  `update installation set no_workers_since = clock_timestamp() where no_workers_since is null and ${capacityNow} = 0`,
);

/** @returns whether it was known that no worker is alive */
export const endAlarm = queryAny(
  'update installation set no_workers_since = null where no_workers_since is not null returning only_row',
);
