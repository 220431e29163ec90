import { disabled as disabledReasons } from '../../../foundation/domain/batch-export.ts';
import {
  notFound,
  type Problem,
  Refusal,
  refuseIfAny,
} from '../../../foundation/domain/problem.ts';
import { checkTenantKey } from '../../../foundation/domain/tenant-key.ts';
import type { Sql, Transactor } from '../../../state/store/database/database.ts';
import { type Change, recordActivity } from '../../../state/store/exports/activity.ts';
import { listPausableExports } from '../../../state/store/exports/exports.ts';
import {
  findOrganization,
  insertOrganization,
  insertProject,
  type NewProject,
  type Organization,
  type Project,
  setDisabled,
  setName,
  type Reach,
} from '../../../state/store/tenants/tenants.ts';
import type { Context } from '../context.ts';
import { pauseExport } from '../exports/pause-export.ts';
import { unpauseExport } from '../exports/unpause-export.ts';
import { checkName } from './issue-key.ts';

/** The operator's key that asks; null: the command line. */
type KeyId = string | null;

export async function createOrganization(
  db: Transactor,
  name: string,
  keyId: KeyId = null,
): Promise<Organization> {
  refuseIfAny(checkName(name));
  return db.transaction(async (tx) => {
    const created = await insertOrganization(tx, name);
    await recordTenant(tx, { organizationId: created.id, teamId: null }, 'created', keyId);
    return created;
  });
}

export async function createProject(
  db: Transactor,
  input: NewProject,
  keyId: KeyId = null,
): Promise<Project> {
  refuseIfAny(checkProject(input));
  if (!(await findOrganization(db, input.organizationId))) {
    const detail = `There is no organization ${input.organizationId}.`;
    throw new Refusal({ code: 'does_not_exist', detail, attr: 'organization' });
  }
  return db.transaction(async (tx) => {
    const created = await insertProject(tx, input);
    const { organizationId, id: teamId } = created;
    await recordTenant(tx, { organizationId, teamId }, 'created', keyId);
    return created;
  });
}

/** Everything that is wrong with a new project. */
export function checkProject({ name, tenantKey = null }: NewProject): Problem[] {
  return [...checkName(name), ...(tenantKey === null ? [] : checkTenantKey(tenantKey))];
}

/**
 * Gives an organization or a project another name.
 *
 * @throws Refusal if the name is not one, or if there is no such tenant
 */
export async function renameTenant(
  db: Transactor,
  tenant: Reach,
  name: string,
  keyId: KeyId,
): Promise<void> {
  refuseIfAny(checkName(name));
  await db.transaction(async (tx) => {
    const before = await setName(tx, tenant, name);
    if (before === null) throw notFound();
    if (before === name) return;
    await recordTenant(tx, tenant, 'renamed', keyId, [{ field: 'name', before, after: name }]);
  });
}

/**
 * Disables an organization or a project: its keys are refused, and its exports are paused; live runs finish. Or enables it
 * again: the exports that this has paused continue. It can be repeated after a failure.
 *
 * @throws Refusal if there is no such tenant
 */
export async function disableTenant(
  context: Context,
  tenant: Reach,
  disabled: boolean,
  keyId: KeyId,
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
    await recordTenant(tx, tenant, disabled ? 'disabled' : 'enabled', keyId);
  });
  const actor = { organizationId, keyId };
  for (const id of await listPausableExports(context.db, tenant, disabled ? null : reason.code)) {
    if (disabled) await pauseExport(context, actor, id, reason);
    else await unpauseExport(context, actor, id, { backfill: false, retryMissing: false });
  }
}

/** Records who did what to an organization or a project, in the transaction of the change. */
async function recordTenant(
  tx: Sql,
  { organizationId, teamId }: Reach,
  action: string,
  keyId: KeyId,
  changes: readonly Change[] = [],
): Promise<void> {
  const subjectType = teamId === null ? 'organization' : 'project';
  const subject = { id: teamId ?? organizationId, teamId };
  await recordActivity(tx, { organizationId, keyId }, action, subjectType, subject, changes);
}
