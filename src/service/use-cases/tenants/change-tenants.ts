import { disabled as disabledReasons } from '../../../foundation/domain/batch-export.ts';
import {
  invalid,
  notFound,
  orNotFound,
  type Problem,
  Refusal,
  refuseIfAny,
} from '../../../foundation/domain/problem.ts';
import { checkTenantKey, type ModelTenant } from '../../../foundation/domain/tenant-key.ts';
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
  type Reach,
  setDisabled,
  setName,
} from '../../../state/store/tenants/tenants.ts';
import type { Context } from '../context.ts';
import { pauseExport, unpauseExport } from '../exports/pause-export.ts';
import { checkName } from './keys.ts';

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

export function checkProject({ name, tenantKey = null }: NewProject): Problem[] {
  return [...checkName(name), ...(tenantKey === null ? [] : checkTenantKey(tenantKey))];
}

/** Gives an organization or a project another name. @throws Refusal if the name is not one, or if there is no such tenant */
export async function renameTenant(db: Transactor, tenant: Reach, name: string, keyId: KeyId) {
  refuseIfAny(checkName(name));
  await db.transaction(async (tx) => {
    const before = orNotFound(await setName(tx, tenant, name));
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

/** Asks all models for a tenant key. Null: a model did not answer. */
export type FindTenants = (tenantKey: string) => Promise<readonly (ModelTenant | null)[]>;

/**
 * @param tenantKey null: the id of the project, a whole number
 * @returns warnings
 * @throws Refusal if no model can have it
 */
export async function judgeTenantKey(
  tenantKey: string | null,
  findTenants: FindTenants,
): Promise<readonly string[]> {
  const allAnswers = await findTenants(tenantKey ?? '1');
  const answers = allAnswers.filter((answer) => answer !== null);
  const possible = answers.filter(({ isPossible }) => isPossible);
  if (answers.length > 0 && answers.length === allAnswers.length && possible.length === 0) {
    const columns = answers.map(({ model, column, type }) => `${column} of ${model} is ${type}`);
    const what =
      tenantKey === null
        ? 'Without tenant_key, the id of the project is taken, a whole number. No model can have it'
        : 'No model can have this tenant_key';
    const detail = `${what}: ${columns.join(', ')}. Enter the value that the column has for this project's rows.`;
    throw new Refusal(invalid('tenant_key', detail));
  }
  const silent = allAnswers.length - answers.length;
  if (silent > 0) {
    return [
      `${silent} of ${allAnswers.length} models did not answer, so whether they have this tenant_key is not known. \`sluice models check\` says why.`,
    ];
  }
  // Before it exists, the id of a project is not known.
  if (tenantKey === null || possible.some(({ hasRows }) => hasRows !== false)) return [];
  const names = possible.map(({ model, column }) => `${column} of ${model}`).join(', ');
  return [
    `No row has this tenant_key yet (${names}). It cannot be changed: if it is wrong, delete the project and create another.`,
  ];
}
