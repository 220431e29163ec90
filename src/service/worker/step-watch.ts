import { describeStep, type RunStep, type StepNow } from '../../foundation/domain/run-step.ts';

/** Rows are read and written in turn: what takes more of the time names both. */
const rowSteps: ReadonlySet<RunStep> = new Set<RunStep>(['first_row', 'read', 'write']);
/** Unless the other one takes half a minute by itself. */
const aloneMs = 30_000;
const saidAfterMs = [1, 5, 30, 120, 480].map((minutes) => minutes * 60_000);

/** Watches which step an attempt is in, and since when, by the monotonic clock. */
export class StepWatch {
  #step: RunStep = 'prepare';
  /** Since when this step goes on without a break. */
  #since: number;
  /** Since when rows are read and written in turn; of another step the same as `#since`. */
  #begunAt: number;
  #spentMs = { source: 0, destination: 0 };
  #said: { readonly name: RunStep; readonly times: number } = { name: 'prepare', times: 0 };
  readonly #now: () => number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#since = now();
    this.#begunAt = this.#since;
  }

  enter(step: RunStep): void {
    if (step === this.#step) return;
    const now = this.#now();
    if (rowSteps.has(step) && rowSteps.has(this.#step)) {
      this.#spentMs[sideOf(this.#step)] += now - this.#since;
    } else {
      this.#spentMs = { source: 0, destination: 0 };
      this.#begunAt = now;
    }
    this.#step = step;
    this.#since = now;
  }

  current(): StepNow {
    const now = this.#now();
    const step = this.#step;
    const aloneFor = now - this.#since;
    const whole = (now - this.#begunAt) / 1_000;
    if (!rowSteps.has(step)) return { name: step, seconds: whole };
    const side = sideOf(step);
    const other = side === 'source' ? 'destination' : 'source';
    if (this.#spentMs[side] + aloneFor >= this.#spentMs[other])
      return { name: step, seconds: whole };
    if (aloneFor >= aloneMs) return { name: step, seconds: aloneFor / 1_000 };
    return { name: step === 'write' ? 'read' : 'write', seconds: whole };
  }

  /** The next line for the log of the run; null: the step does not take long, or the log says it already. */
  nextLine(): string | null {
    const current = this.current();
    const { name, seconds } = current;
    const times = saidAfterMs.filter((ms) => seconds * 1_000 >= ms).length;
    const before = this.#said.name === name ? this.#said.times : 0;
    this.#said = { name, times };
    if (times <= before) return null;
    const text = describeStep(current, null);
    return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
  }
}

const sideOf = (step: RunStep): 'source' | 'destination' =>
  step === 'write' ? 'destination' : 'source';
