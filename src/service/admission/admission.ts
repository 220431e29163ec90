import type { ExportMode } from '../../foundation/domain/export-settings.ts';
import {
  type DestinationConfig,
  type FileSettings,
  readFileSettings,
} from '../../foundation/domain/file-settings.ts';
import type { RunPurpose } from '../../foundation/domain/run.ts';
import { Crowd, ReadingTurns } from './reading-turns.ts';
import { CpuPressure, CpuUse, processCpuMs } from './cpu-use.ts';
import {
  idleWorkerBytes,
  largeRowCopies,
  leftToOthers,
  readBackBytes,
  smallRunBytes,
  smallSlots,
} from './memory-budget.ts';
import { MemoryGate, SmallSlots } from './memory-gate.ts';
import { SmallRun } from './small-run.ts';
import { freeBuffers, growForSmallRuns, growYoungGeneration } from './process-memory.ts';
import type { Destination } from '../../rows/destinations/destination.ts';
import type { IntervalSource } from '../../rows/pipeline/interval-job.ts';
import type { Source } from '../../rows/sources/source.ts';
import {
  type EnqueuedRun,
  findUnanswered,
  markDispatched,
  markReady,
  type TakenRuns,
  takeRuns,
  unmarkDispatched,
} from '../../state/store/runs/outbox.ts';
import type { Context } from '../use-cases/context.ts';

/** A run that is unclaimed after this time is enqueued again: the queue may have lost it. */
const enqueueAgainAfterMs = 5_000;

export interface QueueEntry {
  readonly runId: string;
  /** The queue holds it at most once. Another enqueueing may get a new one. Null: it is the first. */
  readonly deduplicationId: string | null;
  /** True if it goes to the queue of small runs. */
  readonly small: boolean;
}

type Enqueue = (entries: readonly QueueEntry[], smallSlots: number) => Promise<void>;

/**
 * Makes runs visible whose backoff or jitter has ended, and enqueues those again that no worker has claimed. Then
 * enqueues waiting runs.
 *
 * @param enqueue adds runs to the queue; throws if the queue is unreachable
 * @param crowd learns who is active, and says who must leave room; default: none must
 * @returns how many runs were enqueued for the first time
 */
export async function dispatchRuns(
  context: Context,
  enqueue: Enqueue,
  crowd?: Crowd,
): Promise<number> {
  await markReady(context.db);
  const unanswered = await findUnanswered(context.db, enqueueAgainAfterMs);
  if (unanswered.length > 0) {
    const enqueued = await markDispatched(context.db, unanswered);
    await enqueue(enqueued.map(toEntry), 0);
  }
  return dispatchWaiting(context, enqueue, crowd);
}

/**
 * Enqueues waiting runs, chosen fairly (`takeRuns`), until the queue holds about twice as many as the workers have
 * slots. The organization with the fewest runs in flight goes first, then its project, then live runs before
 * backfills, then the oldest interval. Of four or more slots one organization never has all. Small runs have slots of
 * their own, shared in the same way. Any number of workers may call it at once. @returns how many runs were enqueued
 */
export async function dispatchWaiting(
  context: Context,
  enqueue: Enqueue,
  crowd?: Crowd,
): Promise<number> {
  const { runs, organizationIds, smallSlots } = await take(context, crowd);
  crowd?.see(organizationIds);
  if (runs.length === 0) return 0;
  try {
    await enqueue(runs.map(toEntry), smallSlots);
  } catch (error) {
    const runIds = runs.map(({ runId }) => runId);
    await unmarkDispatched(context.db, runIds);
    throw error;
  }
  return runs.length;
}

/** Chooses once more if another dispatcher has chosen meanwhile. After the second time that one has seen all of this. */
async function take({ db, policy }: Context, crowd?: Crowd): Promise<TakenRuns> {
  const { maxRunsPerExport: perExport, maxRunsPerTenant: perProject } = policy;
  const rules = { perExport, perProject, company: crowd?.company() ?? null };
  const taken = await takeRuns(db, rules);
  return taken.isCurrent ? taken : takeRuns(db, rules);
}

/**
 * The first time needs no id: one dispatcher marks the run, and enqueues it once. From then on
 * the queue refuses an entry that it already holds. If it lost the job, or the worker crashed just after
 * it fetched the job, the queue may still hold the id. So the id changes with each doubling of the times.
 */
function toEntry({ runId, timesEnqueued, small }: EnqueuedRun): QueueEntry {
  const doublings = Math.floor(Math.log2(timesEnqueued));
  return { runId, deduplicationId: doublings === 0 ? null : `${runId}.${doublings}`, small };
}

export interface AdmissionOptions {
  readonly memoryBytes: number;
  readonly slots: number;
  /** Maximum small runs, if their memory is free. */
  readonly smallRuns: number;
  readonly memoryOf: (
    type: string,
    files: FileSettings,
    transforms: boolean,
    ownSteps: number,
  ) => number;
  /** True if exports of changes compare the keys of such a model with those in delivered files. */
  readonly comparesKeys: (model: string) => boolean;
  readonly stopping: AbortSignal;
  /** True if processors have too much to do; default: as the kernel says. */
  readonly pressure?: Pick<CpuPressure, 'isPressed' | 'rest' | 'close'>;
}

export interface ComingRun {
  readonly organizationId: string;
  readonly purpose: RunPurpose;
  readonly model: string;
  readonly mode: ExportMode;
  readonly type: string;
  /** Without secrets. */
  readonly config: DestinationConfig;
  readonly transformations: boolean;
  /** Steps of its chain whose plugin is an organization's own. */
  readonly ownSteps: number;
  readonly small: boolean;
  readonly isAlone: boolean;
}

export interface Room {
  readonly slots: number;
  /** Small runs that large ones can't keep out. */
  readonly smallRuns: number;
  /** Bytes that the runs inside may need. */
  readonly usedBytes: number;
  readonly isFull: boolean;
}

/** The buffers of rows of this size are freed before the next large row is read. */
const freedAtOnceBytes = 8 * 1024 ** 2;

/** Answers whether a run may begin in this worker now: memory, slots, and what other organizations need. */
export class Admission {
  readonly crowd: Crowd;
  readonly memory: MemoryGate;
  readonly #options: AdmissionOptions;
  readonly #pressure: Pick<CpuPressure, 'isPressed' | 'rest' | 'close'>;
  readonly #cpuUse = new CpuUse(processCpuMs, () => performance.now());
  readonly #turns: ReadingTurns;
  readonly smallSlots: SmallSlots;
  readonly #smallRuns: number;

  constructor(options: AdmissionOptions) {
    const { memoryBytes, slots, smallRuns, pressure = new CpuPressure() } = options;
    this.#options = options;
    this.#pressure = pressure;
    this.#smallRuns = smallSlots(memoryBytes, smallRuns);
    const smallBytes = this.#smallRuns * smallRunBytes;
    const othersBytes = leftToOthers(memoryBytes - smallBytes);
    this.memory = new MemoryGate(memoryBytes, smallBytes, slots, othersBytes);
    // The share of small runs is what large ones leave; without those there may be memory for more.
    this.smallSlots = new SmallSlots(smallRuns);
    this.crowd = new Crowd(
      () => pressure.isPressed(),
      () => performance.now(),
    );
    this.#turns = new ReadingTurns({
      isCrowding: (id) => this.crowd.isCrowding(id),
      mustRest: (id) => this.#cpuUse.isTooMuch(id, this.crowd.companyOf(id)),
      restShare: () => pressure.rest,
      cpuMs: processCpuMs,
    });
  }

  room(): Room {
    return {
      slots: this.#options.slots,
      smallRuns: this.#smallRuns,
      usedBytes: this.memory.usedBytes,
      isFull: this.smallSlots.hasNext,
    };
  }

  /** Waits until the run may begin. @returns null if the worker ends */
  async enter(run: ComingRun): Promise<Ticket | null> {
    const { organizationId, ownSteps, small } = run;
    this.crowd.see([organizationId]);
    const endTurn = small ? await this.#waitForTurn(organizationId) : () => {};
    if (!endTurn) return null;
    const memory = await (small ? this.#enterSmall(run) : this.#enterLarge(run));
    if (!memory) {
      endTurn();
      return null;
    }
    if (!small) growYoungGeneration();
    const ends = [this.#cpuUse.begin(organizationId), memory.leave, endTurn];
    return new Ticket({ organizationId, ownSteps, ends, turns: this.#turns, small: memory.small });
  }

  /** Begins small runs, each as soon as another one has ended. Resolves when the last has begun. */
  async beginSmall(runs: readonly (() => Promise<void>)[]): Promise<void> {
    growForSmallRuns();
    for (const run of runs) await this.smallSlots.begin(run);
  }

  /** Waits until there is memory for a row. @returns gives it back */
  async holdRow(bytes: number, signal: AbortSignal): Promise<() => void> {
    const giveBack = await this.memory.grow(bytes * largeRowCopies, signal);
    return () => {
      if (bytes >= freedAtOnceBytes) freeBuffers();
      giveBack();
    };
  }

  /** Refuses runs that wait or come later; admitted runs continue. */
  close(): void {
    this.#pressure.close();
    this.memory.close();
  }

  /** @returns null if the worker ends */
  async #waitForTurn(organizationId: string): Promise<(() => void) | null> {
    const { stopping } = this.#options;
    return this.#turns.enter(organizationId, stopping).catch((error: unknown) => {
      if (error === stopping.reason) return null;
      throw error;
    });
  }

  async #enterLarge(run: ComingRun): Promise<Memory | null> {
    const needed = this.#memoryOf(run, run.ownSteps);
    // A run that never fits fails at its start, so it need not wait until all other runs have ended.
    const bytes = needed <= this.#options.memoryBytes ? needed : this.#memoryOf(run, 0);
    const all = bytes + (run.isAlone ? idleWorkerBytes : 0);
    const leave = await this.memory.enter(all, run.organizationId);
    return leave && { leave, small: null };
  }

  async #enterSmall(run: ComingRun): Promise<Memory | null> {
    const full = this.#memoryOf(run, 0);
    const slot = await this.memory.enterSmall(Math.min(smallRunBytes, full), run.organizationId);
    return slot && { leave: () => slot.leave(), small: new SmallRun(slot, full) };
  }

  #memoryOf(run: ComingRun, ownSteps: number): number {
    const { type, config, transformations, purpose, model, mode } = run;
    const { memoryOf, comparesKeys } = this.#options;
    const readsFiles = purpose !== 'whole' || (mode === 'changes' && comparesKeys(model));
    const reading = readsFiles ? readBackBytes : 0;
    return reading + memoryOf(type, readFileSettings(config), transformations, ownSteps);
  }
}

interface Memory {
  readonly leave: () => void;
  readonly small: SmallRun | null;
}

interface TicketOptions {
  readonly organizationId: string;
  readonly ownSteps: number;
  /** Called once, in their order, when the run leaves. */
  readonly ends: readonly (() => void)[];
  readonly turns: ReadingTurns;
  readonly small: SmallRun | null;
}

/** A run that was admitted: it has memory and its turns until it leaves. */
export class Ticket {
  /** For how many steps with an own plugin there is memory; a run with more is handed back. */
  readonly ownSteps: number;
  readonly #options: TicketOptions;
  #isInside = true;

  constructor(options: TicketOptions) {
    this.ownSteps = options.ownSteps;
    this.#options = options;
  }

  /** True if the run has the memory of a small one, or had it at its start. */
  get isSmall(): boolean {
    return this.#options.small !== null;
  }

  /** True if the attempt of a small run ended because there was no memory to go on. */
  get hasOutgrown(): boolean {
    return this.#options.small?.hasOutgrown === true;
  }

  source(source: Source): IntervalSource {
    const { organizationId, turns, small } = this.#options;
    return {
      settle: (...asked) => source.settle(...asked),
      describe: (...asked) => source.describe(...asked),
      readSequence: (...asked) => source.readSequence(...asked),
      open: async (...asked) => {
        const snapshot = await (small ? small.open(source, ...asked) : source.open(...asked));
        return turns.readIn(organizationId, snapshot);
      },
    };
  }

  destination(destination: Destination): Destination {
    const { small } = this.#options;
    return small ? small.at(destination) : destination;
  }

  leave(): void {
    if (!this.#isInside) return;
    this.#isInside = false;
    for (const end of this.#options.ends) end();
  }
}
