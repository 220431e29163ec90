import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import type { Turn } from '../../../foundation/domain/causes.ts';
import type { DeliveryOutcome } from '../../../foundation/domain/delivery.ts';
import { Refusal } from '../../../foundation/domain/problem.ts';
import type { DataInterval, Instant } from '../../../foundation/domain/time.ts';
import { type Budget, budgetOf, dueBy, outcomeOf } from '../../scheduling/deadline.ts';
import { type DeliveryRow, listOwed } from '../../../state/store/healing/deadlines.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import type { Context } from '../context.ts';
import { turnOfCode } from '../notifications/announce.ts';
import { deadlineOf, warnMsOf } from './check-deadlines.ts';

/** What became of the deadline of an interval. */
export interface JudgedInterval {
  readonly interval: DataInterval;
  readonly dueBy: Instant;
  readonly deliveredAt: Instant | null;
  readonly outcome: DeliveryOutcome;
  /** Why it is late or at risk; null: it is not, or nothing failed. */
  readonly code: string | null;
  /** Who can end that; null: it is not late or at risk. */
  readonly turn: Turn | null;
}

export interface DeliveryRecord {
  readonly range: DataInterval;
  /** Whether older intervals of the range were left out. */
  readonly isCut: boolean;
  readonly targetPercent: number;
  readonly counts: Readonly<Record<DeliveryOutcome, number>>;
  readonly budget: Budget;
  /** Oldest first. */
  readonly intervals: readonly JudgedInterval[];
}

/** Maximum intervals of an answer: the newest ones. */
const maxIntervals = 20_000;

const dayMs = 86_400_000;
const units: Readonly<Record<string, number>> = { h: 3_600_000, d: dayMs, w: 7 * dayMs };
const longestMs = 366 * dayMs;

/** @throws Refusal */
export function readWindow(text: string): number {
  const [, count = '', unit = ''] = /^([1-9]\d{0,3})([hdw])$/.exec(text) ?? [];
  const ms = Number(count) * (units[unit] ?? 0);
  if (ms > 0 && ms <= longestMs) return ms;
  const detail = 'Use a number and h, d or w, such as 24h, 30d or 4w: at most 366 days.';
  throw new Refusal({ code: 'invalid_input', detail, attr: 'window' });
}

/**
 * The record of an export's deliveries: each interval that was owed and ended in the window, judged by the current deadline.
 *
 * @throws Refusal if the export has no deadline
 */
export async function readDelivery(
  { db }: Pick<Context, 'db'>,
  batchExport: BatchExport,
  windowMs: number,
  targetPercent: number,
): Promise<DeliveryRecord> {
  const deadline = deadlineOf(batchExport);
  if (deadline === null) {
    const detail = 'The export has no deadline. Set deadline_minutes or deadline_at.';
    throw new Refusal({ code: 'invalid_input', detail, attr: 'deadline_minutes' });
  }
  const now = await readNow(db);
  const range = { start: now - windowMs, end: now };
  const rows = await listOwed(db, batchExport.id, range, maxIntervals + 1);
  const isCut = rows.length > maxIntervals;
  const intervals = (isCut ? rows.slice(1) : rows).map((row) => {
    const due = dueBy(row.interval, batchExport.schedule.cadences, deadline);
    return judged(row, due, now, warnMsOf(batchExport));
  });
  const counts = { met: 0, missed: 0, at_risk: 0, pending: 0 };
  for (const { outcome } of intervals) counts[outcome] += 1;
  const budget = budgetOf(counts.met, counts.missed, targetPercent);
  return { range, isCut, targetPercent, counts, budget, intervals };
}

function judged(row: DeliveryRow, due: Instant, now: Instant, warnMs: number): JudgedInterval {
  const { interval, deliveredAt } = row;
  const outcome = outcomeOf(due, deliveredAt, now, warnMs);
  const isFine = outcome === 'met' || outcome === 'pending';
  const code = isFine ? null : (row.lateCode ?? row.code);
  const turn = isFine ? null : (row.turn ?? turnOfCode(code, row.waitsForSource));
  return { interval, dueBy: due, deliveredAt, outcome, code, turn };
}
