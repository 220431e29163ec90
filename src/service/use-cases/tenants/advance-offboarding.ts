import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import type { Sql, Transactor } from '../../../state/store/database/database.ts';
import { lockExport, markBatchExportDeleted } from '../../../state/store/exports/exports.ts';
import {
  countDeleted,
  hasSettled,
  keepPlaces,
  leaveOffboarding,
  measurePlaces,
  moveOffboarding,
  type TakenOffboarding,
  takeOffboarding,
} from '../../../state/store/tenants/offboardings.ts';
import {
  type Deleter,
  deleteStragglers,
  deletersOfExport,
  deletersOfOwner,
  deletersOfTenant,
  deleteUnusedSources,
  endSilentCommits,
  findAnyExport,
  forgetActingKeys,
  hasOpenUploads,
  listExportsUnderWay,
} from '../../../state/store/tenants/tenant-rows.ts';
import { cancelLiveWork } from '../runs/cancel-work.ts';
import type { WorkGuard } from '../work-guard.ts';

/** Where files of a destination are. */
export interface DescribedPlace {
  /** The store and the bucket or folder. */
  readonly place: string;
  /** An address such as `s3://bucket/prefix`. */
  readonly address: string;
}

export interface OffboardingPorts {
  /** Null if such a destination keeps no files. */
  describePlace(type: string, config: DestinationConfig): DescribedPlace | null;
  /** Removes jobs about runs and backfills that are gone. */
  removeGoneJobs(): Promise<void>;
  /** Called once for each that is completed. */
  onCompleted(offboardingId: string): void;
  /** Whether this slice of work is over. */
  isOver(): boolean;
  readonly guard: WorkGuard;
}

export interface OffboardingPatience {
  /** A process that is silent for longer loses the offboarding to another one. */
  readonly leaseMs: number;
  /** For the sweep to abort uploads; then those that are left are counted and left to the bucket's lifecycle rule. */
  readonly uploadsMs: number;
  /** For transactions that began before the deletion ended. */
  readonly settleMs: number;
}

const patience: OffboardingPatience = {
  leaseMs: 120_000,
  uploadsMs: 3_600_000,
  settleMs: 900_000,
};

const exportsPerStep = 100;

const setAside = 'Workers died during it. `sluice doctor` shows whether it was set aside.';

/** Another process has taken the offboarding; it goes on there. */
class Taken extends Error {}

/**
 * Goes on with the deletion of tenants, in short transactions, until the slice is over or there is nothing to do. Each
 * step finds in the tables what is left, so any process may go on at any moment, after any other one.
 */
export async function advanceOffboardings(
  db: Transactor,
  ports: OffboardingPorts,
  limits: OffboardingPatience = patience,
): Promise<void> {
  // Those that wait for something must not hold up the others.
  const visited: string[] = [];
  while (!ports.isOver()) {
    const taken = await takeOffboarding(db, limits.leaseMs, visited);
    if (!taken) return;
    visited.push(taken.id);
    try {
      const what = { kind: 'offboard', id: taken.id } as const;
      const end = await ports.guard.do(what, limits.leaseMs, async () =>
        leaveOffboarding(db, taken, await advance({ db, ports, limits, taken })),
      );
      if (end !== 'done') await leaveOffboarding(db, taken, setAside);
    } catch (error) {
      if (error instanceof Taken) continue;
      await leaveOffboarding(db, taken, String(error)).catch(() => {});
      throw error;
    }
  }
}

interface Work {
  readonly db: Transactor;
  readonly ports: OffboardingPorts;
  readonly limits: OffboardingPatience;
  readonly taken: TakenOffboarding;
}

/** @returns what it waits for; null: nothing */
async function advance(work: Work): Promise<string | null> {
  const { db, ports, limits, taken } = work;
  let { status } = taken;
  if (status === 'cancelling') {
    const reason = await cancelAll(work);
    if (reason !== null) return reason;
    await move(work, 'deleting');
    status = 'deleting';
  }
  if (status === 'deleting') {
    if (!(await deleteAll(work))) return null;
    await move(work, 'settling');
  }
  if (!(await hasSettled(db, taken.id, limits.settleMs))) {
    return 'Waits for transactions of the database that began before the deletion ended.';
  }
  await deleteStragglers(db, taken.id);
  await ports.removeGoneJobs();
  await move(work, 'completed');
  ports.onCompleted(taken.id);
  return null;
}

async function move({ db, taken }: Work, status: TakenOffboarding['status']): Promise<void> {
  if (!(await moveOffboarding(db, taken, status))) throw new Taken();
}

/** @returns what it waits for; null: nothing is in progress any more */
async function cancelAll({ db, ports, limits, taken }: Work): Promise<string | null> {
  for (;;) {
    const ids = await listExportsUnderWay(db, taken, exportsPerStep);
    if (ids.length === 0) break;
    for (const id of ids) {
      await db.transaction(async (tx) => {
        if (!(await lockExport(tx, id, { evenDeleted: true }))) return;
        await markBatchExportDeleted(tx, id);
        await cancelLiveWork(tx, id);
      });
      if (ports.isOver()) return 'Continues with the next sweep.';
    }
  }
  if (await db.transaction((tx) => endSilentCommits(tx, taken))) {
    return 'Waits for runs that commit their files.';
  }
  const waits = taken.ageMs < limits.uploadsMs && (await hasOpenUploads(db, taken));
  return waits ? 'Waits until uploads at the destinations are aborted.' : null;
}

/** @returns false if the slice is over before all rows are deleted */
async function deleteAll(work: Work): Promise<boolean> {
  const { db, taken } = work;
  for (;;) {
    const found = await findAnyExport(db, taken);
    if (found === null) break;
    if (found.isUnderWay) {
      await move(work, 'cancelling');
      return false;
    }
    // Before the first of its rows goes.
    await keepPlacesOf(work, found.id);
    if (!(await drain(work, deletersOfExport(found.id)))) return false;
  }
  await forgetActingKeys(db, taken);
  if (!(await drain(work, deletersOfTenant(taken)))) return false;
  try {
    await db.transaction(async (tx) => {
      const table = 'plugin_sources';
      await count(work, tx, { table, rows: await deleteUnusedSources(tx, taken.id), sources: [] });
      for (const deleter of deletersOfOwner(taken))
        await count(work, tx, await deleter.deleteBatch(tx));
    });
  } catch (error) {
    // A request that began before the tenant was closed has added to it.
    if (!isForeignKeyViolation(error)) throw error;
    await move(work, 'cancelling');
    return false;
  }
  return true;
}

async function keepPlacesOf({ db, ports, taken }: Work, exportId: string): Promise<void> {
  const measured = await measurePlaces(db, exportId);
  const places = measured.map((place) => ({
    ...place,
    ...(ports.describePlace(place.type, place.config) ?? { address: null, place: null }),
  }));
  await db.transaction((tx) => keepPlaces(tx, taken.id, places));
}

/** Calls each until it deletes nothing. */
async function drain(work: Work, deleters: readonly Deleter[]): Promise<boolean> {
  for (const deleter of deleters) {
    for (;;) {
      const rows = await work.db.transaction(async (tx) => {
        const deleted = await deleter.deleteBatch(tx);
        if (deleted.rows > 0) await count(work, tx, deleted);
        return deleted.rows;
      });
      if (rows === 0) break;
      if (work.ports.isOver()) return false;
    }
  }
  return true;
}

async function count(
  { taken, limits }: Work,
  tx: Sql,
  deleted: Parameters<typeof countDeleted>[2],
): Promise<void> {
  if (!(await countDeleted(tx, taken, deleted, limits.leaseMs))) throw new Taken();
}

/** PostgreSQL: foreign_key_violation. */
const isForeignKeyViolation = (error: unknown): boolean =>
  (error as { code?: unknown }).code === '23503';
