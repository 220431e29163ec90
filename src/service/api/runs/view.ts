import { lastAttempt, type RetryPolicy } from '../../../foundation/domain/retry-policy.ts';
import { describeStep, isLongStep } from '../../../foundation/domain/run-step.ts';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { baseReasons, type Element } from '../../../foundation/domain/element.ts';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import { isTerminal } from '../../../foundation/domain/run.ts';
import type { RunStepSeen } from '../../../state/store/runs/run-step.ts';
import type { Run } from '../../../state/store/runs/runs.ts';
import type { BatchExportRun } from './schema.ts';

/** @param retry what the workers of this installation keep to */
export function runView(run: Run, retry: RetryPolicy): BatchExportRun {
  const { teamId: _, faults: __, exportId, startsAt, endsAt, waitsFor, ...shown } = run;
  return {
    ...inSnakeCase(shown),
    batch_export: exportId,
    data_interval_start: startsAt,
    data_interval_end: endsAt,
    cursor: run.cursor === null ? null : opaque(run.cursor),
    max_attempts: isTerminal(run.status)
      ? null
      : lastAttempt({ ...run, isUnderWay: run.nextAttemptAt === null }, retry),
    waiting_for: waitsFor && [...waitsFor],
    step: run.step && stepView(run.step),
    element: run.element && elementView(run.element),
    steps: run.steps?.map(({ timeMs, ...step }) => ({ ...step, time_ms: timeMs })) ?? null,
  };
}

function stepView(step: RunStepSeen): NonNullable<BatchExportRun['step']> {
  const { name, since, usual } = step;
  return { name, since, is_long: isLongStep(step, usual), text: describeStep(step, usual) };
}

export const elementView = ({ number, follows, base, from, next, deletes, at }: Element) => ({
  ...{ number, follows, base: base && baseReasons[base], deletes },
  ...{ from_version: from, next_version: next, snapshot_at: toTimestamp(at) },
});

function opaque(cursor: unknown): string {
  return Buffer.from(JSON.stringify(cursor)).toString('base64url');
}
