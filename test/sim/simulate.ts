import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { ownSteps } from '../../src/extensions/own-plugins/own-plugins.ts';
import { readConfig } from '../../src/foundation/config/config.ts';
import { policyOf } from '../../src/main/policy.ts';
import { createSecretBox } from '../../src/foundation/security/secret-box.ts';
import { openDatabase } from '../../src/state/store/database/database.ts';
import { createTenant } from '../support/tenants.ts';
import { anyHistory, type History } from './actions.ts';
import { type Defect, faultyDatabase } from './faulty-database.ts';
import { checkAlways, checkSettled, createWitness, settle } from './invariants.ts';
import { createSimDatabase } from './virtual-time.ts';
import { type Action, act, createWorld, type Lane } from './world.ts';

/** What a batch of histories came to, so that an idle simulator is seen. */
export interface Tally {
  histories: number;
  actions: number;
  runs: number;
  completed: number;
}

/** A database of its own, in which one history is played after the other. */
export async function openLane(defect: Defect | null): Promise<Lane & { close(): Promise<void> }> {
  const sim = await createSimDatabase();
  const real = openDatabase({
    connectionString: sim.url,
    applicationName: 'simulator',
    maxConnections: 2,
    onError: () => {},
  });
  const tenant = await createTenant(real);
  const db = faultyDatabase(real, defect);
  const retry = { maxAttempts: 10, baseMs: 30_000, capMs: 600_000 };
  const bounds = { maxRunsPerTenant: 8, maxRunsPerExport: 4, minIntervalMinutes: 1 };
  const policy = { ...policyOf(readConfig({})), ...bounds, leaseMs: 60_000, retry };
  return {
    sim,
    db,
    context: {
      db,
      // Years are hours here.
      policy: {
        ...policy,
        maxJitterSeconds: 30,
        retentionDays: 0.1,
        logRetentionDays: 0.1,
        lateLookbackHours: 4,
      },
      secrets: createSecretBox([{ id: 'test', key: randomBytes(32) }]),
      doorbell: { runsWaiting() {}, backfillWaiting() {} },
      ownSteps,
    },
    organizationId: tenant.organizationId,
    teamIds: tenant.projectIds,
    async close() {
      await real.close();
      await sim.drop();
    },
  };
}

/** What changes no row. */
const outside: ReadonlySet<Action['kind']> = new Set([
  'wait',
  'lose_job',
  'flush_queue',
  'kill',
  'beat',
  'source_changes',
]);

/** Plays one history with all checks; throws at the first thing that does not hold. */
export async function playHistory(
  lane: Lane,
  history: History,
  defect: Defect | null,
  tally?: Tally,
): Promise<void> {
  const world = await createWorld(lane, history.createdAt, history.settings, defect);
  const witness = createWitness();
  for (const action of history.actions) {
    await act(world, action);
    if (!outside.has(action.kind)) await checkAlways(world, witness);
  }
  await settle(world);
  await checkAlways(world, witness);
  const { runs, completed } = await checkSettled(world, witness);
  if (tally === undefined) return;
  tally.histories += 1;
  tally.actions += history.actions.length;
  tally.runs += runs;
  tally.completed += completed;
}

/**
 * Plays `runs` histories drawn from `seed`, in one database.
 *
 * @returns fast-check's account: `failed`, and the shortest failing history it found;
 *   and whether the defect's SQL was met at all
 */
export async function simulate(
  seed: number,
  runs: number,
  defect: Defect | null = null,
  tally?: Tally,
): Promise<{ readonly details: fc.RunDetails<[History]>; readonly edited: boolean }> {
  const lane = await openLane(defect);
  try {
    const details = await fc.check(
      fc.asyncProperty(anyHistory, (history) => playHistory(lane, history, defect, tally)),
      // A bug that was put in on purpose needs no shortest history.
      { seed, numRuns: runs, endOnFailure: defect !== null },
    );
    return { details, edited: lane.db.edited() };
  } finally {
    await lane.close();
  }
}
