import { Worker } from 'node:worker_threads';
import { SluiceError } from '../../foundation/domain/errors.ts';
import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';
import type { BlockTransformer } from '../transforms/block-transformer.ts';
import { addErrors, type StepErrors, type StepTally } from '../transforms/chain-step.ts';
import type { RowStep } from '../transforms/step.ts';
import {
  type RowsShape,
  RowTransformer,
  type TransformedRows,
} from '../transforms/transform-rows.ts';
import {
  blockOf,
  copyOf,
  memoryOf,
  type StepShare,
  type ThreadAnswer,
  type ThreadSetup,
} from './messages.ts';

export interface ThreadOptions {
  /** The program: `thread.js` of the build. */
  readonly entry: string;
  /** An abort ends the thread at once. */
  readonly signal: AbortSignal;
  /** How long the oldest block may take. */
  readonly stallMs?: number;
}

/** Blocks in the thread or on their way: while one is encoded, the next ones are made. */
const maxInFlight = 2;
/** A block takes milliseconds; this is for a machine that is very busy. */
const usualStallMs = 60_000;
/** A larger block would need more than the heap of the thread. */
const maxBlockBytes = 2 * 1024 ** 2;
const oldGenerationMib = 32;
const youngGenerationMib = 12;
const buffersMib = 4;

/** What a thread may take: its heap, and the blocks on their way. */
export const threadMemoryBytes = (oldGenerationMib + youngGenerationMib + buffersMib) * 1024 ** 2;

interface Pending {
  readonly place: number;
  readonly resolve: (rows: TransformedRows) => void;
  readonly reject: (error: unknown) => void;
  readonly stalled: NodeJS.Timeout;
}

/** Null if a step runs in its own thread only. */
export function stepsForThread(
  steps: readonly { readonly kind: string }[],
): readonly RowStep[] | null {
  const ours = steps.filter((step): step is RowStep => step.kind === 'row' && 'from' in step);
  return ours.length === steps.length ? ours : null;
}

/**
 * A chain in a thread of its own, for one run. The thread sees nothing but this run's steps and rows. If it
 * ends or stops answering, every call throws SluiceError `transformation.thread_ended`.
 */
export class ThreadTransformer implements BlockTransformer {
  readonly columns: readonly Column[];
  readonly steps: readonly Tally[];
  readonly #given: readonly RowStep[];
  readonly #shape: RowsShape;
  readonly #options: ThreadOptions;
  readonly #worker: Worker;
  readonly #pending: Pending[] = [];
  readonly #results: Promise<TransformedRows>[] = [];
  #sent = 0;
  #ended: { readonly error: unknown } | null = null;

  constructor(steps: readonly RowStep[], shape: RowsShape, options: ThreadOptions) {
    const { toJson: _, ...plain } = shape;
    this.columns = new RowTransformer([], shape).columns;
    this.steps = steps.map((step) => new Tally(step));
    this.#given = steps;
    this.#shape = shape;
    this.#options = options;
    const workerData: ThreadSetup = {
      steps: steps.flatMap(({ from }) => from ?? []),
      shape: plain,
    };
    this.#worker = new Worker(options.entry, {
      workerData,
      env: {},
      execArgv: [],
      resourceLimits: {
        maxOldGenerationSizeMb: oldGenerationMib,
        maxYoungGenerationSizeMb: youngGenerationMib,
      },
    });
    this.#worker.on('message', (answer: ThreadAnswer) => this.#receive(answer));
    this.#worker.on('error', (error) => this.#end(threadEnded('it failed', error)));
    this.#worker.on('exit', () => this.#end(threadEnded('it exited')));
    options.signal.addEventListener('abort', this.#abort, { once: true });
    if (options.signal.aborted) this.#abort();
  }

  async write(block: RowBlock): Promise<readonly TransformedRows[]> {
    if (block.bytes.length > maxBlockBytes) {
      return [...(await this.finish()), await this.#applyHere(block)];
    }
    if (this.#ended) throw this.#ended.error;
    this.#results.push(this.#send(block));
    const ready: TransformedRows[] = [];
    while (this.#results.length > maxInFlight) ready.push(await this.#takeFirst());
    return ready;
  }

  async finish(): Promise<readonly TransformedRows[]> {
    const ready: TransformedRows[] = [];
    while (this.#results.length > 0) ready.push(await this.#takeFirst());
    return ready;
  }

  async close(): Promise<void> {
    this.#end(threadEnded('it was closed'));
    await this.#worker.terminate();
  }

  readonly #abort = () => this.#end(this.#options.signal.reason);

  #send(block: RowBlock): Promise<TransformedRows> {
    const place = this.#sent;
    this.#sent += 1;
    const sent = copyOf(block, place);
    const result = new Promise<TransformedRows>((resolve, reject) => {
      const stall = () => this.#end(threadEnded('it does not answer'));
      const stalled = setTimeout(stall, this.#options.stallMs ?? usualStallMs);
      this.#pending.push({ place, resolve, reject, stalled });
    });
    // It is thrown when the block's turn comes; until then it must not count as unhandled.
    result.catch(() => {});
    this.#worker.postMessage(sent, memoryOf(sent));
    return result;
  }

  async #takeFirst(): Promise<TransformedRows> {
    const first = this.#results.shift();
    if (!first) throw new RangeError('no block is in flight');
    return await first;
  }

  #receive(answer: ThreadAnswer): void {
    const first = this.#pending.shift();
    if (!first) return;
    clearTimeout(first.stalled);
    if ('error' in answer || answer.place !== first.place) {
      const error = threadEnded(describeFault(answer, first.place));
      first.reject(error);
      this.#end(error);
      return;
    }
    const { block, rejected, dropped, steps } = answer;
    this.#add(steps);
    first.resolve({ block: blockOf(block, this.columns), rejected, dropped });
  }

  /** With counters of its own, like the thread. */
  async #applyHere(block: RowBlock): Promise<TransformedRows> {
    const transformer = new RowTransformer(this.#given, this.#shape, this.#options.signal);
    const made = await transformer.apply(block);
    this.#add(transformer.steps);
    return made;
  }

  #add(shares: readonly StepShare[]): void {
    for (const [index, share] of shares.entries()) this.steps[index]?.add(share);
  }

  /** The first reason counts. */
  #end(error: unknown): void {
    if (this.#ended) return;
    this.#ended = { error };
    this.#options.signal.removeEventListener('abort', this.#abort);
    for (const { reject, stalled } of this.#pending.splice(0)) {
      clearTimeout(stalled);
      reject(error);
    }
    void this.#worker.terminate();
  }
}

/** The sums of what became of the rows of all blocks in one step. */
class Tally implements StepTally {
  readonly counters = { in: 0, out: 0, dropped: 0, errored: 0 };
  timeMs = 0;
  readonly #errors = new Map<string, StepErrors>();
  readonly step: RowStep;

  constructor(step: RowStep) {
    this.step = step;
  }

  get errors(): readonly StepErrors[] {
    return [...this.#errors.values()];
  }

  add({ counters, timeMs, errors }: StepShare): void {
    this.timeMs += timeMs;
    this.counters.in += counters.in;
    this.counters.out += counters.out;
    this.counters.dropped += counters.dropped;
    this.counters.errored += counters.errored;
    for (const { reason, rows, firstKey } of errors) {
      addErrors(this.#errors, reason, rows, () => firstKey);
    }
  }
}

/** Rows in another order would be other files. */
function describeFault(answer: ThreadAnswer, place: number): string {
  if ('error' in answer) return `a block failed with a ${answer.error}`;
  return `the answer is of block ${answer.place} instead of block ${place}`;
}

function threadEnded(how: string, cause?: unknown): SluiceError {
  return new SluiceError('transformation.thread_ended', `the thread of the chain: ${how}`, cause);
}
