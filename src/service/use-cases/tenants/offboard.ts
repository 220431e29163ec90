import { notFound, Refusal } from '../../../foundation/domain/problem.ts';
import type { Transactor } from '../../../state/store/database/database.ts';
import { type Offboarding, openOffboarding } from '../../../state/store/tenants/offboardings.ts';
import { findOrganization, findProject, type Reach } from '../../../state/store/tenants/tenants.ts';

/** Which tenant, and proof that it is the one that is meant. */
export interface OffboardInput {
  readonly organizationId: string;
  /** Null: the whole organization. */
  readonly teamId: number | null;
  /** Must be its name. */
  readonly confirmName: string;
}

/**
 * Begins the deletion of an organization or a project with everything of it. From now on its keys are refused, also if the
 * rest takes hours; a worker does it.
 *
 * @param keyId the operator's key that asks; null: the command line
 * @returns the offboarding, also if it was in progress already
 * @throws Refusal if there is no such tenant, or its name is another one
 */
export async function offboardTenant(
  db: Transactor,
  { organizationId, teamId, confirmName }: OffboardInput,
  keyId: string | null,
): Promise<Offboarding> {
  return db.transaction(async (tx) => {
    const name = await nameOf(tx, { organizationId, teamId });
    if (name !== confirmName) {
      const detail = `This is not the name of the ${teamId === null ? 'organization' : 'project'}. Send its name, to confirm what is deleted.`;
      throw new Refusal({ code: 'invalid_input', detail, attr: 'confirm_name' });
    }
    const opened = await openOffboarding(tx, { organizationId, teamId }, keyId);
    if (!opened) throw notFound();
    return opened;
  });
}

async function nameOf(
  tx: Parameters<typeof openOffboarding>[0],
  { organizationId, teamId }: Reach,
): Promise<string> {
  const organization = await findOrganization(tx, organizationId, { evenClosed: true });
  const missing = (attr: string, what: string) =>
    new Refusal({ code: 'does_not_exist', detail: `There is no ${what}.`, attr });
  if (!organization) throw missing('organization_id', `organization ${organizationId}`);
  if (teamId === null) return organization.name;
  const project = await findProject(tx, teamId, { evenClosed: true });
  if (project?.organizationId !== organizationId) {
    throw missing('project_id', `project ${teamId} in this organization`);
  }
  return project.name;
}
