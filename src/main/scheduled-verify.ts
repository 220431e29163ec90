import { runChild } from '../service/worker/watch-child.ts';
import {
  endVerifyTurn,
  renewVerifyTurn,
  takeVerifyTurn,
} from '../state/store/intervals/verifications.ts';
import { verifyProgramOf } from './child-program.ts';
import type { Foundation } from './foundation.ts';
import type { VerifyJob, VerifyJobReport } from './run-verify.ts';

const renewEveryMs = 20_000;
/** A file of a large export can keep the event loop busy for long. */
const silentMs = 300_000;

/**
 * Verifies all exports at the time of VERIFY_SCHEDULE, in a process of its own. One worker of all does it at a time; if it dies,
 * another one goes on.
 *
 * @returns does what is due, and never throws
 */
export function verifyBySchedule(
  foundation: Foundation,
  stopping: AbortSignal,
): () => Promise<void> {
  const { config, db, logger } = foundation;
  const { VERIFY_SCHEDULE: schedule } = config;
  if (schedule === null) return async () => {};
  const program = verifyProgramOf(foundation);
  const verify = async () => {
    const job = await takeVerifyTurn(db, schedule);
    if (!job || stopping.aborted) return;
    const lost = new AbortController();
    const renew = async () => {
      if (!(await renewVerifyTurn(db, job.lease))) lost.abort();
    };
    const renewing = setInterval(() => void renew().catch(() => {}), renewEveryMs);
    const end = await runChild<VerifyJobReport>(
      program,
      job satisfies VerifyJob,
      silentMs,
      AbortSignal.any([stopping, lost.signal]),
    );
    clearInterval(renewing);
    const report = 'report' in end ? end.report : null;
    await endVerifyTurn(db, job.lease, report?.isComplete ?? false);
    if (report) logger.info(report, 'exports were verified');
    else logger.warn(end, 'the process that verifies ended early; another one goes on');
  };
  return () =>
    verify().catch((error: unknown) =>
      logger.warn({ err: error }, 'the scheduled verification failed'),
    );
}
