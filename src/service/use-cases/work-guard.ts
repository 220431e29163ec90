import { randomUUID } from 'node:crypto';
import type { Sql } from '../../state/store/database/database.ts';
import {
  beginWork,
  endWork,
  type GuardedWork,
  leaveWork,
} from '../../state/store/files/guarded-work.ts';

/** Beyond its patience: for what ends late, and a process that is silent meanwhile. */
const lateMs = 60_000;

/** The end of guarded work. `busy`: another process is at it, or it was set aside before. */
export type GuardedEnd = 'done' | 'busy' | 'set aside';

/**
 * Does work besides runs so that no piece of it ends a fourth process. After two deaths it is done while this process does no
 * other such work, so that work of others does not count as the cause. After the third it is set aside.
 */
export class WorkGuard {
  readonly #db: Sql;
  readonly #onSetAside: (work: GuardedWork) => void;
  /** The name of this process: a restart has another one. */
  readonly #holder = randomUUID();
  readonly #inProgress = new Set<Promise<unknown>>();
  /** The last work that is done alone: what comes later waits for it. */
  #alone: Promise<unknown> = Promise.resolve();

  constructor(db: Sql, onSetAside: (work: GuardedWork) => void) {
    this.#db = db;
    this.#onSetAside = onSetAside;
  }

  /** @param patienceMs within which the work ends, or calls `extend` */
  async do(
    what: GuardedWork,
    patienceMs: number,
    work: (extend: () => Promise<unknown>) => Promise<void>,
  ): Promise<GuardedEnd> {
    const attempt = async (isAlone: boolean): Promise<GuardedEnd | 'alone'> => {
      const leaseMs = patienceMs + lateMs;
      const extend = () => beginWork(this.#db, what, this.#holder, leaseMs, isAlone);
      const begin = await extend();
      if (begin !== 'begun') return begin;
      try {
        await work(extend);
      } finally {
        await endWork(this.#db, what, this.#holder);
      }
      return 'done';
    };
    let end = await this.#besideOthers(() => attempt(false));
    if (end === 'alone') end = await this.#withoutOthers(() => attempt(true));
    if (end === 'set aside') this.#onSetAside(what);
    return end === 'alone' ? 'busy' : end;
  }

  close(): Promise<void> {
    return leaveWork(this.#db, this.#holder);
  }

  async #besideOthers<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#alone.then(work);
    this.#inProgress.add(done);
    return done.finally(() => this.#inProgress.delete(done));
  }

  #withoutOthers<T>(work: () => Promise<T>): Promise<T> {
    const done = Promise.allSettled([this.#alone, ...this.#inProgress]).then(work);
    this.#alone = done.catch(() => {});
    return done;
  }
}
