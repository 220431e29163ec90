import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import { invalid, orNotFound, Refusal } from '../../../foundation/domain/problem.ts';
import type { Sql, Transactor } from '../../../state/store/database/database.ts';
import { lockExport, markBatchExportDeleted } from '../../../state/store/exports/exports.ts';
import {
  hasSettled,
  keepPlaces,
  listOpenOffboardings,
  lockOffboarding,
  measurePlaces,
  type Offboarding,
  type OffboardingStep,
  openOffboarding,
  recordFailure,
  recordStep,
} from '../../../state/store/tenants/offboardings.ts';
import {
  deleteExports,
  deleteStragglers,
  deleteTenant,
  endSilentCommits,
  hasOpenUploads,
  listExportsUnderWay,
  lockExportsOf,
  lockTenant,
} from '../../../state/store/tenants/tenant-rows.ts';
import { findOrganization, findProject, type Reach } from '../../../state/store/tenants/tenants.ts';
import { cancelLiveWork } from '../runs/cancel-work.ts';

/**
 * From now on its keys are refused; a worker does the rest.
 * @param confirmName must be its name: proof that it is the one that is meant
 * @returns the offboarding, also if it was in progress already
 * @throws Refusal if there is no such tenant, or its name is another one
 */
export async function offboardTenant(
  db: Transactor,
  { confirmName, ...tenant }: Reach & { readonly confirmName: string },
  keyId: string | null,
): Promise<Offboarding> {
  return db.transaction(async (tx) => {
    if ((await nameOf(tx, tenant)) !== confirmName) {
      const detail = `This is not the name of the ${tenant.teamId === null ? 'organization' : 'project'}. Send its name, to confirm what is deleted.`;
      throw new Refusal(invalid('confirm_name', detail));
    }
    const opened = orNotFound(await openOffboarding(tx, tenant, keyId));
    return opened;
  });
}

async function nameOf(tx: Sql, { organizationId, teamId }: Reach): Promise<string> {
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

export interface DescribedPlace {
  readonly place: string;
  readonly address: string;
}

export interface OffboardingPorts {
  /** Null if such a destination keeps no files. */
  describePlace(type: string, config: DestinationConfig): DescribedPlace | null;
  /** Called once for each that is completed. */
  onCompleted(offboardingId: string): void;
  /** Called for each step that fails. The next sweep repeats it. */
  onError(error: unknown): void;
  isOver(): boolean;
}

interface OffboardingPatience {
  /** For the sweep to abort uploads; then those that are left are counted and left to the bucket's lifecycle rule. */
  readonly uploadsMs: number;
  /** For transactions that began before the deletion ended. */
  readonly settleMs: number;
}

const patience: OffboardingPatience = { uploadsMs: 3_600_000, settleMs: 900_000 };

const exportsPerStep = 50;

/**
 * Continues the deletion of tenants, until the slice is over or there is nothing to do. A step is one transaction, which
 * locks its offboarding. It reads from the tables what is left, so any process may continue after any other one.
 */
export async function advanceOffboardings(
  db: Transactor,
  ports: OffboardingPorts,
  limits: OffboardingPatience = patience,
): Promise<void> {
  for (const id of await listOpenOffboardings(db)) {
    try {
      while (!ports.isOver() && (await takeStep(db, id, ports, limits)));
    } catch (error) {
      // It must not hold up the others.
      await recordFailure(db, id, String(error)).catch(() => {});
      ports.onError(error);
    }
  }
}

async function takeStep(
  db: Transactor,
  id: string,
  ports: OffboardingPorts,
  limits: OffboardingPatience,
): Promise<boolean> {
  const isSettled = await hasSettled(db, id, limits.settleMs);
  const step = await db.transaction(async (tx) => {
    const tenant = await lockOffboarding(tx, id);
    if (!tenant) return null;
    const taken = await stepOf({ tx, ports, limits, tenant, isSettled });
    await recordStep(tx, id, taken);
    return taken;
  });
  if (step?.status === 'completed') ports.onCompleted(id);
  return step !== null && step.status !== 'completed' && step.waitsFor === undefined;
}

interface Work {
  readonly tx: Sql;
  readonly ports: OffboardingPorts;
  readonly limits: OffboardingPatience;
  readonly tenant: Offboarding & { readonly ageMs: number };
  readonly isSettled: boolean;
}

async function stepOf(work: Work): Promise<OffboardingStep> {
  const { tx, tenant, isSettled } = work;
  if (tenant.status === 'cancelling') return cancelSome(work);
  if (tenant.status === 'deleting') return deleteSome(work);
  if (isSettled) {
    await deleteStragglers(tx, tenant.id);
    return { status: 'completed' };
  }
  const waitsFor = 'Waits for transactions of the database that began before the deletion ended.';
  return { status: 'settling', waitsFor };
}

async function cancelSome({ tx, limits, tenant }: Work): Promise<OffboardingStep> {
  const status = 'cancelling';
  const ids = await listExportsUnderWay(tx, tenant, exportsPerStep);
  for (const id of ids) {
    if (!(await lockExport(tx, id, { evenDeleted: true }))) continue;
    await markBatchExportDeleted(tx, id);
    await cancelLiveWork(tx, id);
  }
  if (ids.length > 0) return { status };
  if (await endSilentCommits(tx, tenant)) {
    return { status, waitsFor: 'Waits for runs that commit their files.' };
  }
  if (tenant.ageMs < limits.uploadsMs && (await hasOpenUploads(tx, tenant))) {
    return { status, waitsFor: 'Waits until uploads at the destinations are aborted.' };
  }
  return { status: 'deleting' };
}

async function deleteSome({ tx, ports, tenant }: Work): Promise<OffboardingStep> {
  const ids = await lockExportsOf(tx, tenant, exportsPerStep);
  // An export of a request that began before the tenant was closed.
  const [late] = await listExportsUnderWay(tx, tenant, 1, ids);
  if (late !== undefined) return { status: 'cancelling' };
  if (ids.length > 0) {
    const places = (await measurePlaces(tx, ids)).map(({ config, ...place }) => ({
      ...place,
      ...(ports.describePlace(place.type, config) ?? { address: null, place: null }),
    }));
    await keepPlaces(tx, tenant.organizationId, places);
    await deleteExports(tx, tenant, ids);
    return { status: 'deleting' };
  }
  await lockTenant(tx, tenant);
  const [later] = await lockExportsOf(tx, tenant, 1);
  if (later !== undefined) return { status: 'cancelling' };
  await deleteTenant(tx, tenant);
  return { status: 'settling' };
}
