import { baseReasons, type Element } from '../../../foundation/domain/element.ts';
import { orNotFound } from '../../../foundation/domain/problem.ts';
import { lastAttempt, type RetryPolicy } from '../../../foundation/domain/retry-policy.ts';
import { describeStep, isLongStep } from '../../../foundation/domain/run-step.ts';
import { isTerminal } from '../../../foundation/domain/run.ts';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import { type FoundRun, findRun, type Run } from '../../../state/store/runs/runs.ts';
import { batchExportOf, type Request } from '../api.ts';
import { isUuid } from '../validation/validator.ts';
import type { BatchExportRun } from './schema.ts';

export async function loadRun(request: Request, id: string): Promise<FoundRun> {
  const { db } = request.context;
  const run = orNotFound(isUuid(id) ? await findRun(db, batchExportOf(request).id, id) : null);
  return run;
}

export function runView(run: Run, retry: RetryPolicy): BatchExportRun {
  const { teamId: _, faults: __, exportId, startsAt, endsAt, waitsFor, ...shown } = run;
  const { cursor, step, nextAttemptAt } = run;
  const isUnderWay = nextAttemptAt === null;
  return {
    ...inSnakeCase(shown),
    batch_export: exportId,
    data_interval_start: startsAt,
    data_interval_end: endsAt,
    cursor: cursor === null ? null : Buffer.from(JSON.stringify(cursor)).toString('base64url'),
    max_attempts: isTerminal(run.status) ? null : lastAttempt({ ...run, isUnderWay }, retry),
    waiting_for: waitsFor && [...waitsFor],
    step: step && {
      ...{ name: step.name, since: step.since, is_long: isLongStep(step, step.usual) },
      text: describeStep(step, step.usual),
    },
    element: run.element && elementView(run.element),
    steps: run.steps?.map(({ timeMs, ...one }) => ({ ...one, time_ms: timeMs })) ?? null,
  };
}

export const elementView = ({ number, follows, base, from, next, deletes, at }: Element) => ({
  ...{ number, follows, base: base && baseReasons[base], deletes },
  ...{ from_version: from, next_version: next, snapshot_at: toTimestamp(at) },
});
