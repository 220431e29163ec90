import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import {
  type FailpointName,
  failpointNames,
} from '../../../src/foundation/failpoints/failpoint.ts';
import type { TestProcess } from '../../support/processes.ts';
import { type Random, randomOf } from '../../support/random.ts';
import type { World } from './world.ts';

const shiftedClock = fileURLToPath(new URL('../../support/shifted-clock.mjs', import.meta.url));
const workers = 8;
/** This many keep working when one is killed, so a machine that starts them slowly has fewer kills. */
const minUp = 4;
const watchEveryMs = 100;
/** Without those of an Iceberg table, which no export of the storm has. */
const workerSteps = failpointNames.filter((name) => !/enqueue|table/.test(name));

interface Member {
  readonly process: TestProcess;
  frozen: boolean;
  /** Whether its end was ours. */
  killed: boolean;
  stopSeen: boolean;
}

/** The workers and the API: kills them, freezes them, and starts others in their place. */
export class Fleet {
  readonly #world: World;
  readonly #spawning: Random;
  readonly #thawing: Random;
  readonly #apiRandom: Random;
  readonly #up = new Set<Member>();
  readonly #starting = new Set<Promise<void>>();
  #api: TestProcess | undefined;
  #apiStarting: Promise<void> = Promise.resolve();
  #calm = false;

  constructor(world: World) {
    this.#world = world;
    this.#spawning = randomOf(world.seed, 'spawning');
    this.#thawing = randomOf(world.seed, 'thawing');
    this.#apiRandom = randomOf(world.seed, 'api');
    this.#api = world.installation.processes[0];
    for (let n = 0; n < workers; n += 1) this.#spawn();
  }

  /** Watches for what failpoints did, until the signal comes. */
  async watch(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      for (const member of [...this.#up]) this.#look(member);
      if (this.#api?.hasExited()) this.#replaceApi();
      await sleep(watchEveryMs, undefined, { signal }).catch(() => {});
    }
  }

  /** Kills or freezes one process. */
  async strike(random: Random): Promise<void> {
    const [kind, which, ms] = [random.next(), random.next(), random.between(500, 6_000)];
    if (kind < 0.05) return this.#killApi();
    while (this.#up.size < minUp) await Promise.race(this.#starting);
    const awake = [...this.#up].filter(({ frozen }) => !frozen);
    const victims = awake.length > 0 ? awake : [...this.#up];
    // Those that are up for longest are at work: they are struck most often.
    const victim = victims[Math.floor(which ** 2 * victims.length)];
    if (!victim) return;
    if (kind < 0.2 && this.#world.mayFreeze) {
      victim.process.kill('SIGSTOP');
      this.#freeze(victim, ms);
    } else {
      this.#kill(victim);
    }
  }

  /** Kills every worker; those that start in their place know nothing of what the store did before. */
  async killAll(): Promise<void> {
    await Promise.all(this.#starting);
    const all = [...this.#up];
    for (const member of all) this.#kill(member);
    await Promise.all(all.map(({ process }) => process.waitForExit()));
  }

  thawAll(): void {
    for (const member of this.#up) if (member.frozen) this.#thaw(member);
  }

  /** From here on nothing is armed, frozen or killed; the workers and the API are new ones. */
  async calmDown(): Promise<void> {
    this.#calm = true;
    await this.killAll();
    await Promise.all(this.#starting);
    await this.#apiStarting;
    await this.#killApi();
    await this.#apiStarting;
    this.#world.counts.kills -= workers + 1;
  }

  #look(member: Member): void {
    const { process } = member;
    if (!member.stopSeen && /failpoint \w+=stop/.test(process.output())) {
      member.stopSeen = true;
      if (this.#world.mayFreeze) this.#freeze(member, this.#thawing.between(500, 6_000));
      else this.#kill(member);
    }
    if (!process.hasExited()) return;
    this.#up.delete(member);
    if (!member.killed) {
      if (/failpoint \w+=kill/.test(process.output())) this.#world.counts.kills += 1;
      else
        this.#world.surprises.push(
          `worker ${process.pid} ended: ${process.output().slice(-1_500)}`,
        );
      this.#spawn();
    }
  }

  #freeze(member: Member, ms: number): void {
    member.frozen = true;
    this.#world.counts.freezes += 1;
    setTimeout(() => this.#thaw(member), ms).unref();
  }

  #thaw(member: Member): void {
    member.frozen = false;
    if (!member.process.hasExited()) member.process.kill('SIGCONT');
  }

  #kill(member: Member): void {
    member.killed = true;
    this.#up.delete(member);
    member.process.kill('SIGKILL');
    this.#world.counts.kills += 1;
    this.#spawn();
  }

  #spawn(): void {
    const env = this.#calm ? {} : drawEnv(this.#spawning);
    const start = async (): Promise<void> => {
      const { installation } = this.#world;
      const started = installation.startWorker(env);
      const process = installation.processes.at(-1);
      try {
        const member = { process: await started, frozen: false, killed: false, stopSeen: false };
        this.#up.add(member);
      } catch {
        // A machine under load: the next one may be faster.
        process?.kill('SIGKILL');
        this.#spawn();
      }
    };
    const starting = start();
    this.#starting.add(starting);
    void starting.finally(() => this.#starting.delete(starting));
  }

  async #killApi(): Promise<void> {
    const api = this.#api;
    api?.kill('SIGKILL');
    await api?.waitForExit();
    this.#replaceApi();
  }

  #replaceApi(): void {
    if (this.#api === undefined) return;
    this.#api = undefined;
    this.#world.counts.kills += 1;
    this.#apiStarting = this.#startApi();
  }

  async #startApi(): Promise<void> {
    const { installation, surprises } = this.#world;
    const failpoint = this.#apiRandom.chance(0.3) && !this.#calm;
    const starting = installation.startApi(
      failpoint ? { FAILPOINTS: 'before_enqueue=kill@2' } : {},
    );
    const process = installation.processes.at(-1);
    try {
      this.#api = await starting;
    } catch (error) {
      // Ended by its failpoint, or late on a machine under load.
      const ended = process?.hasExited() && !process.output().includes('failpoint');
      if (ended) surprises.push(`the API does not start: ${String(error)}`);
      process?.kill('SIGKILL');
      await process?.waitForExit();
      await this.#startApi();
    }
  }
}

/** Of a worker: what it breaks at, and how wrong the clock of its host is. */
function drawEnv(random: Random): Readonly<Record<string, string>> {
  const [armed, action, nth] = [random.chance(0.35), random.next(), random.pick([1, 1, 2, 3])];
  const step = random.pick(workerSteps as [FailpointName, ...FailpointName[]]);
  const does = action < 0.6 ? 'kill' : action < 0.85 ? 'stop' : 'delay(1500)';
  const skewed = random.chance(0.2);
  const shiftMs = random.pick([3_000, -3_000, 3_600_000, -3_600_000]);
  return {
    ...(armed ? { FAILPOINTS: `${step}=${does}@${nth}` } : {}),
    ...(skewed
      ? { NODE_OPTIONS: `--import ${shiftedClock}`, CLOCK_SHIFT_MS: String(shiftMs) }
      : {}),
  };
}
