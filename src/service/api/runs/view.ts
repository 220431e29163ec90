import { lastAttempt, type RetryPolicy } from '../../../foundation/domain/retry-policy.ts';
import { describeStep, isLongStep } from '../../../foundation/domain/run-step.ts';
import { isTerminal } from '../../../foundation/domain/run.ts';
import type { RunStepSeen } from '../../../state/store/runs/run-step.ts';
import type { Run } from '../../../state/store/runs/runs.ts';
import type { BatchExportRun } from './schema.ts';

/** @param retry what the workers of this installation keep to */
export function runView(run: Run, retry: RetryPolicy): BatchExportRun {
  return {
    id: run.id,
    status: run.status,
    records_completed: run.recordsCompleted,
    latest_error: run.latestError,
    superseded: run.superseded,
    data_interval_start: run.startsAt,
    data_interval_end: run.endsAt,
    cursor: run.cursor === null ? null : opaque(run.cursor),
    created_at: run.createdAt,
    started_at: run.startedAt,
    finished_at: run.finishedAt,
    last_updated_at: run.lastUpdatedAt,
    records_total_count: run.recordsTotalCount,
    batch_export: run.exportId,
    attempt: run.attempt,
    max_attempts: isTerminal(run.status)
      ? null
      : lastAttempt({ ...run, isUnderWay: run.nextAttemptAt === null }, retry),
    next_attempt_at: run.nextAttemptAt,
    waiting_for: run.waitsFor && [...run.waitsFor],
    step: run.step && stepView(run.step),
    bytes_exported: run.bytesExported,
    files: run.files,
    records_dropped: run.recordsDropped,
    records_rejected: run.recordsRejected,
    backfill_id: run.backfillId,
    purpose: run.purpose,
    settled: run.settled,
    steps: run.steps?.map(({ timeMs, ...step }) => ({ ...step, time_ms: timeMs })) ?? null,
  };
}

function stepView(step: RunStepSeen): NonNullable<BatchExportRun['step']> {
  const { name, since, usual } = step;
  return { name, since, is_long: isLongStep(step, usual), text: describeStep(step, usual) };
}

function opaque(cursor: unknown): string {
  return Buffer.from(JSON.stringify(cursor)).toString('base64url');
}
