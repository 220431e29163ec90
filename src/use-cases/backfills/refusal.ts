import type { Problem } from '../outcome.ts';
import type { BackfillProblem } from './start-backfill.ts';

const words: Record<BackfillProblem, Pick<Problem, 'code' | 'attr'>> = {
  no_start: { code: 'required', attr: 'start_at' },
  no_end: { code: 'required', attr: 'end_at' },
  end_in_future: { code: 'invalid_input', attr: 'end_at' },
  empty_range: { code: 'invalid_input', attr: 'start_at' },
  already_running: { code: 'conflict', attr: null },
  too_many: { code: 'throttled', attr: null },
};

/** A refused backfill in the words of the error body. */
export function backfillRefusal(refusal: {
  readonly problem: BackfillProblem;
  readonly detail: string;
}): Problem {
  return { ...words[refusal.problem], detail: refusal.detail };
}
