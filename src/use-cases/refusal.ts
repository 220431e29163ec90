import { type Outcome, type Problem, refused } from './outcome.ts';

/** Thrown inside a transaction to undo it; never leaves the use case. */
export class Refusal extends Error {
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.detail);
    this.name = 'Refusal';
    this.problem = problem;
  }
}

/** A refusal that undid a transaction, as a value again. */
export async function settleRefusal<T>(work: Promise<Outcome<T>>): Promise<Outcome<T>> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Refusal) return refused(error.problem);
    throw error;
  }
}
