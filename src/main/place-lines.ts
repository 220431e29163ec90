import { causeKindOf } from '../foundation/domain/causes.ts';
import { type ErrorCode, SluiceError } from '../foundation/domain/errors.ts';
import type { Logger } from '../foundation/telemetry/logger.ts';
import type { ClaimedRun } from '../state/store/runs/claims.ts';
import type { Connectors } from '../service/worker/connectors.ts';

interface DeadPlace {
  readonly since: number;
  readonly name: string;
  saidAt: number;
  /** Attempts that failed there, or that were not made, since the last line. */
  attempts: number;
}

const sayEveryMs = 30_000;
/** After that a place is forgotten: no run of this process is about it any more. */
const forgetAfterMs = 3 * 3_600_000;
/** The one that was noted first is forgotten if there are more. */
const mostPlaces = 1_000;

/** Whether an attempt says with this error that a store or a source does not work, for all that use it. */
export function isOfPlace(code: ErrorCode): boolean {
  return causeKindOf(code)?.isCertain ?? false;
}

/**
 * Turns failed attempts at a store or a source that does not work into one line per place and 30 seconds, and one when a run
 * completes there. Each attempt has its line at `debug`.
 */
export class PlaceLines {
  readonly #logger: Logger;
  readonly #connectors: Pick<Connectors, 'destinationPlaceOf' | 'sourcePlaceOf' | 'placeOf'>;
  readonly #now: () => number;
  readonly #dead = new Map<string, DeadPlace>();

  constructor(
    logger: Logger,
    connectors: Pick<Connectors, 'destinationPlaceOf' | 'sourcePlaceOf' | 'placeOf'>,
    now: () => number = () => performance.now(),
  ) {
    this.#logger = logger;
    this.#connectors = connectors;
    this.#now = now;
  }

  /** @returns false if the error is not about a place: then nothing is written */
  failed(run: ClaimedRun, error: unknown): boolean {
    if (!(error instanceof SluiceError) || !isOfPlace(error.code)) return false;
    const { scope } = causeKindOf(error.code) ?? {};
    const [source, destination] = this.#keysOf(run);
    const key = scope === 'source' ? source : destination;
    if (key === undefined) return false;
    const now = this.#now();
    this.#forgetOld(now);
    const name =
      scope === 'source'
        ? `The source of model ${run.model}`
        : `The destination ${this.#nameOf(run)}`;
    const dead = this.#dead.get(key) ?? { since: now, name, saidAt: -sayEveryMs, attempts: 0 };
    this.#dead.set(key, dead);
    const [first] = this.#dead.keys();
    if (first !== undefined && this.#dead.size > mostPlaces) this.#dead.delete(first);
    dead.attempts += 1;
    const ofRun = { run: run.runId, export: run.exportId };
    if (now - dead.saidAt < sayEveryMs) {
      this.#logger.debug({ err: error, ...ofRun }, 'an attempt failed');
      return true;
    }
    const seconds = Math.round((now - dead.since) / 1_000);
    const { attempts } = dead;
    this.#logger.warn(
      { err: error, ...ofRun, fault: error.code, attempts },
      `${dead.name} does not work${seconds > 0 ? ` for ${seconds} s` : ''}. Attempts at it since the last line: ${attempts}. Sluice probes it, and runs what waits when it works.`,
    );
    Object.assign(dead, { saidAt: now, attempts: 0 });
    return true;
  }

  /** Its places work. */
  completed(run: ClaimedRun): void {
    if (this.#dead.size === 0) return;
    for (const key of this.#keysOf(run)) {
      const dead = this.#dead.get(key);
      if (!dead || !this.#dead.delete(key)) continue;
      const seconds = Math.round((this.#now() - dead.since) / 1_000);
      this.#logger.info({ export: run.exportId }, `${dead.name} works again after ${seconds} s.`);
    }
  }

  /** The keys of its source and its destination; none if its secrets cannot be decrypted, or its model is gone. */
  #keysOf(run: ClaimedRun): readonly string[] {
    try {
      return [
        `source ${this.#connectors.sourcePlaceOf(run.model)}`,
        `destination ${this.#connectors.destinationPlaceOf(run)}`,
      ];
    } catch {
      return [];
    }
  }

  #nameOf({ destination: { type, config } }: ClaimedRun): string {
    return this.#connectors.placeOf(type, config)?.place ?? type;
  }

  #forgetOld(now: number): void {
    for (const [key, { since, saidAt }] of this.#dead) {
      if (now - Math.max(since, saidAt) > forgetAfterMs) this.#dead.delete(key);
    }
  }
}
