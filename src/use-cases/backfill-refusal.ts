import type { Problem } from './outcome.ts';
import type { BackfillRefusal } from './run-operations.ts';

const words: Record<BackfillRefusal['problem'], Pick<Problem, 'code' | 'attr'>> = {
  no_start: { code: 'required', attr: 'start_at' },
  no_end: { code: 'required', attr: 'end_at' },
  end_in_future: { code: 'invalid_input', attr: 'end_at' },
  empty_range: { code: 'invalid_input', attr: 'start_at' },
  already_running: { code: 'conflict', attr: null },
  too_many: { code: 'throttled', attr: null },
};

/** A refused backfill in the words of the error body. */
export function backfillRefusalProblem(refusal: BackfillRefusal): Problem {
  return { ...words[refusal.problem], detail: refusal.detail };
}
