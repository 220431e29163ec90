import os from 'node:os';
import { openDatabase } from '../state/store/database/database.ts';
import {
  type Lease,
  listUnverified,
  noteBegun,
  noteHandedBack,
  storeVerification,
} from '../state/store/intervals/verifications.ts';
import type { VerifiedExport } from '../state/store/intervals/verify-queries.ts';
import { createLogger } from '../foundation/telemetry/logger.ts';
import { describeResult, resultOf } from '../service/verify/describe-result.ts';
import { verifyEach } from '../service/verify/verify-exports.ts';
import { serveJob } from '../service/worker/child-run.ts';
import type { ChildSetup } from './child-program.ts';
import { withConnectors } from './verify.ts';

/** What a worker gives to the process that verifies. */
export interface VerifyJob {
  readonly lease: Lease;
  /** Exports that were verified since then have had their turn. */
  readonly dueAt: string;
  /** No export begins after this time. */
  readonly leftMs: number;
}

export interface VerifyJobReport {
  readonly verified: number;
  /** Exports that are broken, or could not be read. */
  readonly failed: number;
  /** Whether each export has had its turn. */
  readonly isComplete: boolean;
}

const maxConnections = 4;
const lowestPriority = 19;

// Runs come first.
os.setPriority(lowestPriority);

serveJob((setup, job, signal) =>
  // The parent is the same build.
  verify(setup as ChildSetup, job as VerifyJob, signal),
);

/** Verifies one export after the other, the one first that was verified longest ago. */
async function verify(
  { config, url, sourceUrl }: ChildSetup,
  { lease, dueAt, leftMs }: VerifyJob,
  signal: AbortSignal,
): Promise<VerifyJobReport> {
  const logger = createLogger(config.LOG_LEVEL, { role: 'verify' });
  const db = openDatabase({
    connectionString: url,
    applicationName: 'sluice-verify',
    maxConnections,
    writes: true,
    onError: (error) => logger.warn({ err: error }, 'a database connection failed'),
  });
  const startedAt = performance.now();
  let storing: Promise<unknown> = Promise.resolve();
  let [verified, failed, isComplete] = [0, 0, false];
  async function* order(chosen: readonly VerifiedExport[]) {
    const byId = new Map(chosen.map((one) => [one.id, one]));
    for (const id of await listUnverified(db, dueAt)) {
      // The result of the export before.
      await storing;
      const one = byId.get(id);
      if (!one) continue;
      if (signal.aborted || performance.now() - startedAt > leftMs) return;
      if (!(await noteBegun(db, lease, id))) return;
      // A stop ends this process in the middle: that is not the fault of the export.
      const handBack = () => void noteHandedBack(db, lease, id).finally(() => process.exit());
      signal.addEventListener('abort', handBack, { once: true });
      yield one;
      signal.removeEventListener('abort', handBack);
    }
    await storing;
    isComplete = true;
  }
  try {
    await withConnectors(config, db, sourceUrl, (joined) =>
      verifyEach({
        ...joined,
        lanes: 1,
        order,
        onResult(found) {
          const result = resultOf(found);
          const isFailed = result === 'broken' || result === 'unread';
          const [detail, ...more] = describeResult(found, result);
          verified += 1;
          if (isFailed) failed += 1;
          if (isFailed) logger.error({ export: found.id, result }, `${found.name}: ${detail}`);
          const { id, intervals, rows, breaches } = found;
          const text = [detail, ...more].join('\n').slice(0, longestDetail);
          storing = storeVerification(db, lease, {
            ...{ exportId: id, result, intervals, rows, breaches, detail: text },
          });
          // `order` reports it.
          storing.catch(() => {});
        },
      }),
    );
    return { verified, failed, isComplete };
  } finally {
    await db.close();
  }
}

/** Maximum characters that are kept of a result. */
const longestDetail = 4_000;
