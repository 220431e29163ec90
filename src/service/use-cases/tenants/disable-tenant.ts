import { disabled as disabledReasons } from '../../../foundation/domain/batch-export.ts';
import { notFound, Refusal } from '../../../foundation/domain/problem.ts';
import { recordActivity } from '../../../state/store/exports/activity.ts';
import { listPausableExports } from '../../../state/store/exports/exports.ts';
import {
  findOrganization,
  setDisabled,
  type TenantId,
} from '../../../state/store/tenants/tenants.ts';
import type { Context } from '../context.ts';
import { pauseExport } from '../exports/pause-export.ts';
import { unpauseExport } from '../exports/unpause-export.ts';

/**
 * Disables an organization or a project: its keys are refused, and its exports are paused; live runs finish. Or enables it
 * again: the exports that this has paused continue. It can be repeated after a failure.
 *
 * @param keyId the operator's key that asks; null: the command line
 * @throws Refusal if there is no such tenant
 */
export async function disableTenant(
  context: Context,
  tenant: TenantId,
  disabled: boolean,
  keyId: string | null,
): Promise<void> {
  const { organizationId, teamId } = tenant;
  const reason = teamId === null ? disabledReasons.organization : disabledReasons.project;
  await context.db.transaction(async (tx) => {
    const organization = await findOrganization(tx, organizationId);
    if (teamId !== null && !disabled && organization?.disabledAt) {
      const detail = 'The organization of this project is disabled. Enable the organization first.';
      throw new Refusal({ code: 'conflict', detail, attr: 'disabled' });
    }
    if (!(await setDisabled(tx, tenant, disabled))) throw notFound();
    await recordActivity(tx, {
      organizationId,
      teamId,
      subjectType: teamId === null ? 'organization' : 'project',
      subjectId: String(teamId ?? organizationId),
      action: disabled ? 'disabled' : 'enabled',
      keyId,
      changes: [],
    });
  });
  const actor = { organizationId, keyId };
  for (const id of await listPausableExports(context.db, tenant, disabled ? null : reason.code)) {
    if (disabled) await pauseExport(context, actor, id, reason);
    else await unpauseExport(context, actor, id, { backfill: false, retryMissing: false });
  }
}
