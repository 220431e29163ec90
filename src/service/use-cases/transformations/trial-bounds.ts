import { type Problem, Refusal } from '../../../foundation/domain/problem.ts';

/**
 * What trying a chain may cost. Steps run in the process that answers all requests, and a step's time grows
 * with the bytes of a row. So work is counted in bytes of rows times steps.
 */
const maxRowWork = 256 * 1024;
const maxWork = 2 * 1024 * 1024;

/**
 * Refuses a trial that would take too long.
 *
 * @param lines rows as JSON
 * @param attr the field of the request that brought or asked for the rows: `rows`, `sample`
 * @throws Refusal
 */
export function checkTrialWork(
  lines: readonly string[],
  stepCount: number,
  attr: 'rows' | 'sample',
): void {
  const work = lines.map((line) => Buffer.byteLength(line) * Math.max(stepCount, 1));
  const large = work.findIndex((one) => one > maxRowWork);
  if (large !== -1) {
    throw refusal(
      attr === 'rows' ? `rows__${large}` : attr,
      `A row is too large for ${stepCount} steps: its bytes times the number of steps must be at most ${maxRowWork}.`,
      'Try shorter rows or fewer steps.',
    );
  }
  if (work.reduce((sum, one) => sum + one, 0) > maxWork) {
    throw refusal(
      attr,
      `The rows are too large for ${stepCount} steps: their bytes times the number of steps must be at most ${maxWork}.`,
      'Try fewer rows, shorter rows or fewer steps.',
    );
  }
}

function refusal(attr: string, what: string, remedy: string): Refusal {
  const problem: Problem = { code: 'max_length', detail: `${what} ${remedy}`, attr };
  return new Refusal(problem);
}
