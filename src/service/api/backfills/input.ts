import { parseTime } from '../../../foundation/domain/parse-time.ts';
import { type Problem, Refusal } from '../../../foundation/domain/problem.ts';
import { ceilInstant, type Instant } from '../../../foundation/domain/time.ts';
import type { BackfillRequest } from '../../use-cases/backfills/start-backfill.ts';
import type { BackfillBody } from './schema.ts';

/**
 * Turns a validated body into the request of the use case.
 *
 * @throws Refusal (400) for a bound without an offset: a guess could export the wrong hours
 */
export function backfillRequest(body: BackfillBody): BackfillRequest {
  const problems: Problem[] = [];
  const read = (attr: 'start_at' | 'end_at'): Instant | null => {
    const text = body[attr];
    if (text === undefined || text === null) return null;
    const parsed = parseTime(text);
    if (!parsed?.hasOffset) {
      const detail = 'Must have an offset from UTC, such as 2024-03-01T00:00:00Z.';
      problems.push({ code: 'invalid_input', detail, attr });
    }
    return parsed && ceilInstant(parsed.timestamp);
  };
  const startAt = read('start_at');
  const endAt = read('end_at');
  if (problems.length > 0) throw new Refusal(...problems);
  return {
    startAt,
    endAt,
    order: body.order ?? 'oldest_first',
    reprocess: body.reprocess ?? 'all',
    dropsMissing: body.missing_rows === 'drop',
    concurrency: body.concurrency ?? null,
  };
}
