import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import type { Cadence } from '../../../foundation/domain/cadence.ts';
import type { Problem } from '../../../foundation/domain/problem.ts';
import { isLocal } from '../../scheduling/boundary.ts';

/** By when intervals are due. */
export type DeadlineSettings = Pick<BatchExport, 'deadlineMinutes' | 'deadlineAt' | 'warnMinutes'>;

/** Returns the problems of a deadline. @param cadence null: it has problems of its own */
export function checkDeadline(
  { deadlineMinutes, deadlineAt, warnMinutes }: DeadlineSettings,
  cadence: Cadence | null,
): Problem[] {
  const problems: Problem[] = [];
  const refuse = (attr: string, detail: string) =>
    problems.push({ code: 'invalid_input', detail, attr });
  if (deadlineMinutes !== null && deadlineAt !== null) {
    refuse(
      'deadline_at',
      'Send deadline_minutes or deadline_at, not both. null removes the other one.',
    );
  }
  if (deadlineAt !== null && cadence !== null && !isLocal(cadence)) {
    refuse(
      'deadline_at',
      `deadline_at is for the intervals day and week. For ${cadence.interval}, use deadline_minutes.`,
    );
  }
  if (warnMinutes !== null && deadlineMinutes === null && deadlineAt === null) {
    refuse(
      'warn_minutes',
      'warn_minutes needs deadline_minutes or deadline_at. Set one of them, or send null.',
    );
  }
  return problems;
}

/** The deadline after a change. One kind that is set replaces the other kind, and without a deadline there is no warning. */
export function changeDeadline(
  before: DeadlineSettings,
  change: { readonly [Name in keyof DeadlineSettings]?: DeadlineSettings[Name] | undefined },
): DeadlineSettings {
  const { deadlineMinutes, deadlineAt, warnMinutes } = change;
  const minutes = deadlineMinutes ?? null;
  const at = deadlineAt ?? null;
  const after = {
    deadlineMinutes:
      deadlineMinutes === undefined ? (at === null ? before.deadlineMinutes : null) : minutes,
    deadlineAt: deadlineAt === undefined ? (minutes === null ? before.deadlineAt : null) : at,
  };
  const hasDeadline = after.deadlineMinutes !== null || after.deadlineAt !== null;
  const previousMinutes = hasDeadline ? before.warnMinutes : null;
  return { ...after, warnMinutes: warnMinutes === undefined ? previousMinutes : warnMinutes };
}
