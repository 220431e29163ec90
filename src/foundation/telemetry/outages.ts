import type { Logger } from 'pino';
import { brokenConnections, within } from '../domain/patience.ts';

export interface Dependency {
  /** The name in `sluice_dependency_up`. */
  readonly name: 'postgres' | 'redis';
  readonly setting: string;
  /** A sentence that says what happens meanwhile. */
  readonly effect: string;
  readonly probe: () => Promise<unknown>;
  /** Why it refuses every request of ours, as a sentence; null if it serves. */
  readonly refusal?: () => Promise<string | null>;
}

interface State {
  /** Since when it is unreachable, on the steady clock; null: it is reachable. */
  downSince: number | null;
  /** When the newest line was written; null: there was none in this outage. */
  saidAt: number | null;
  errors: number;
}

type Write = () => void;

const sayEveryMs = 30_000;
/** A refusal ends only if a person does something. */
const sayRefusalEveryMs = 60_000;
const probeEveryMs = 1_000;
/** The second probe comes sooner: a server that restarts at once may be back within a second. */
const secondProbeMs = 100;
/** So many answers in a row mean that it is reachable: a session that is ended next still answers. */
const answersNeeded = 3;
const probePatienceMs = 3_000;
/** Different lines that wait for the first probes. More, and those that repeat a text, are counted only. */
const heldLines = 100;

/**
 * Turns the errors of a dependency that is unreachable into one line per 30 seconds, and one when it is reachable again. Every
 * log line with an error of a broken connection comes here first. The first one starts probes. About a second later it is written,
 * and so is the first line of each other text, unless a dependency is unreachable. Without errors nothing is probed.
 */
export class Outages {
  readonly #dependencies: readonly Dependency[];
  readonly #logger: Logger;
  readonly #now: () => number;
  readonly #states = new Map<Dependency, State>();
  readonly #held = new Map<string, Write>();
  #counted = 0;
  #probing: Promise<void> | null = null;
  #closed = false;

  constructor(
    logger: Logger,
    dependencies: readonly Dependency[],
    now: () => number = () => performance.now(),
  ) {
    this.#logger = logger;
    this.#dependencies = dependencies;
    this.#now = now;
    for (const each of dependencies) {
      this.#states.set(each, { downSince: null, saidAt: null, errors: 0 });
    }
  }

  /** Takes a line with an error of a broken connection. It is written if no dependency is the reason and no line has its text. */
  take(text: string, write: Write): void {
    if (this.#closed) {
      write();
      return;
    }
    const down = [...this.#states.values()].filter(({ downSince }) => downSince !== null);
    for (const state of down) state.errors += 1;
    if (down.length > 0) return;
    if (this.#held.size < heldLines && !this.#held.has(text)) this.#held.set(text, write);
    else this.#counted += 1;
    this.#probing ??= this.#probe().finally(() => {
      this.#probing = null;
    });
  }

  /** Says whether each dependency answers now. It logs what changed. */
  async look(): Promise<ReadonlyMap<Dependency['name'], boolean>> {
    const states = await Promise.all(
      this.#dependencies.map(async (each) => [each.name, await this.#check(each)] as const),
    );
    if (states.some(([, isUp]) => !isUp)) {
      this.#probing ??= this.#probe().finally(() => {
        this.#probing = null;
      });
    }
    return new Map(states);
  }

  close(): void {
    this.#closed = true;
    this.#release(true);
  }

  /** A server that stops ends its sessions one after another: the first answer may come from one that is next. */
  async #probe(): Promise<void> {
    let answers = 0;
    while (!this.#closed) {
      const states = await Promise.all(this.#dependencies.map((each) => this.#check(each)));
      const isUp = states.every((up) => up);
      answers = isUp ? answers + 1 : 0;
      if (!isUp || answers === answersNeeded) this.#release(isUp);
      if (answers === answersNeeded) return;
      const pause = answers === 1 ? secondProbeMs : probeEveryMs;
      await new Promise((resolve) => setTimeout(resolve, pause).unref());
    }
  }

  /** Lines of before it was known that a dependency is unreachable are about that. */
  #release(isUp: boolean): void {
    const held = [...this.#held.values()];
    const counted = this.#counted;
    this.#held.clear();
    this.#counted = 0;
    if (!isUp) {
      for (const state of this.#states.values()) state.errors += held.length + counted;
      return;
    }
    for (const write of held) write();
    if (counted > 0) this.#logger.warn(`${counted} more lines about broken connections`);
  }

  async #check(dependency: Dependency): Promise<boolean> {
    const { refusal: findRefusal } = dependency;
    let refusal = null as string | null;
    const error = await failureOf(async () => {
      refusal = (await findRefusal?.()) ?? null;
      if (refusal === null) await dependency.probe();
    });
    const isUp = error === null && refusal === null;
    const state = this.#states.get(dependency);
    if (!state || this.#closed) return isUp;
    const { name, setting, effect } = dependency;
    const now = this.#now();
    if (!isUp) {
      state.downSince ??= now;
      const everyMs = refusal === null ? sayEveryMs : sayRefusalEveryMs;
      if (state.saidAt === null || now - state.saidAt >= everyMs) {
        const seconds = Math.round((now - state.downSince) / 1_000);
        const { errors } = state;
        const since = seconds > 0 ? ` for ${seconds} s` : '';
        this.#logger.error(
          { dependency: name, errors },
          refusal === null
            ? `${setting}: ${titles[name]} is unreachable${since} (${error}). ${effect}`
            : `${setting}: ${refusal} ${effect}`,
        );
        state.saidAt = now;
        state.errors = 0;
      }
    } else if (state.downSince !== null) {
      const seconds = Math.round((now - state.downSince) / 1_000);
      this.#logger.info(
        { dependency: name, errors: state.errors },
        `${setting}: ${titles[name]} is reachable again after ${seconds} s.`,
      );
      Object.assign(state, { downSince: null, saidAt: null, errors: 0 });
    }
    return isUp;
  }
}

const titles = { postgres: 'PostgreSQL', redis: 'Redis' } as const;

/** Null if it answers in time; else the code of its error, which names no host. */
async function failureOf(probe: () => Promise<unknown>): Promise<string | null> {
  const answered = Promise.resolve()
    .then(probe)
    .then(
      () => null,
      (error: unknown) => codeOf(error),
    );
  return within(probePatienceMs, answered, `no answer within ${probePatienceMs} ms`);
}

function codeOf(error: unknown): string {
  const [first] = error instanceof AggregateError ? error.errors : [error];
  if (!(first instanceof Error)) return 'no answer';
  return 'code' in first ? String(first.code) : 'connection lost';
}

const codes = new Set([
  ...brokenConnections,
  // PostgreSQL: it stops, starts, or broke the connection.
  '57P01',
  '57P02',
  '57P03',
  '08006',
  '08003',
  '08001',
]);
/** Errors of pg and ioredis without a code. A right that Redis does not give breaks all that needs it. */
const messages =
  /^(Connection terminated|Connection is closed|timeout exceeded when trying to connect|Stream isn't writeable|Client has encountered a connection error|Reached the max retries per request|Command timed out|NOPERM|.*user executing the script can't)/;

/** Errors of our catalogue say more: they are of a place, except the one of our own database. */
export function isBrokenConnection(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? String(error.code) : '';
  if (error.name === 'SluiceError') return code === 'internal.database_unavailable';
  if (error instanceof AggregateError && error.errors.some(isBrokenConnection)) return true;
  return codes.has(code) || messages.test(error.message) || isBrokenConnection(error.cause);
}
