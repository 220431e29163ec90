import { hideFolders } from '../foundation/domain/partition.ts';
import type { MemoryGate } from '../service/admission/memory-gate.ts';
import type { WorkGuard } from '../service/use-cases/work-guard.ts';
import { describeResult, resultOf } from '../service/verify/describe-result.ts';
import {
  isVerificationDue,
  storeVerification,
  type VerifyJob,
} from '../state/store/intervals/verifications.ts';
import type { Foundation } from './foundation.ts';
import { verifyInstallation } from './verify.ts';

/** The keys of the rows that differ, a file as it is read, and what a chain makes of it. A small worker leaves half to runs. */
const verifyBytes = 192 * 1024 ** 2;

/** Its memory is that of no organization. */
const owner = 'verify';

/** A process that is silent for longer counts as one that died. */
const patienceMs = 300_000;
const extendEveryMs = 60_000;

/** Maximum characters that are kept of a result. */
const longestDetail = 4_000;

const setAside =
  'Verifying the export ended its process three times. Run `sluice verify --export <id>` with its id on a machine with more memory, then `sluice work retry`.';

/** Verifies beside the runs of this worker, in their memory. A lost job records nothing, so the next sweep repeats it. */
export function verifyJobOf(
  { config, databases, db, logger }: Foundation,
  memory: Pick<MemoryGate, 'enter' | 'totalBytes'>,
  guard: WorkGuard,
  stopping: AbortSignal,
): (job: VerifyJob) => Promise<void> {
  const verify = async ({ exportId, dueAt }: VerifyJob) => {
    const { results } = await verifyInstallation(config, db, databases.sourceUrl, {
      batchExport: exportId,
      signal: stopping,
    });
    // Another export may have this id as its name.
    for (const verified of results.filter(({ id }) => id === exportId)) {
      const result = resultOf(verified);
      const [detail = '', ...more] = describeResult(verified, result).map(hideFolders);
      const isFailed = result === 'broken' || result === 'unread';
      logger[isFailed ? 'error' : 'info']({ export: exportId, result }, `verified: ${detail}`);
      const { intervals, rows, breaches } = verified;
      const text = [detail, ...more].join('\n').slice(0, longestDetail);
      const sums = { intervals, rows, breaches, detail: text };
      await storeVerification(db, dueAt, { exportId, result, ...sums });
    }
  };
  return async (job) => {
    if (!(await isVerificationDue(db, job))) return;
    const leave = await memory.enter(Math.min(verifyBytes, memory.totalBytes / 2), owner);
    if (!leave) return;
    try {
      // It may have waited for long.
      if (!(await isVerificationDue(db, job))) return;
      const what = { kind: 'verify', id: job.exportId } as const;
      const end = await guard.do(what, patienceMs, async (extend) => {
        const extending = setInterval(() => void extend().catch(() => {}), extendEveryMs);
        await verify(job).finally(() => clearInterval(extending));
      });
      if (end !== 'set aside') return;
      const nothing = { intervals: 0, rows: 0, breaches: 0 };
      const unread = { exportId: job.exportId, result: 'unread', ...nothing } as const;
      await storeVerification(db, job.dueAt, { ...unread, detail: setAside });
    } catch (error) {
      if (!stopping.aborted) throw error;
    } finally {
      leave();
    }
  };
}
