import { setTimeout as sleep } from 'node:timers/promises';
import { isFull } from '../state/store/database/shrunk-pool.ts';
import {
  findRefusal,
  isDatabaseUnavailable,
  isReadOnly,
} from '../state/store/database/unavailable.ts';
import type { Logger } from '../foundation/telemetry/logger.ts';

export interface Start {
  readonly logger: Logger;
  /** Aborted if the start is given up. */
  readonly signal: AbortSignal;
  /** Called with what the start waits for; null once it continues. */
  readonly onWait: (reason: string | null) => void;
}

/** The start cannot succeed until the operator changes something; the message says what. */
export class StartError extends Error {
  override readonly name = 'StartError';
}

const tryEveryMs = 1_000;
const sayEveryMs = 30_000;

/** Repeats a step that is safe to repeat. @throws StartError if the database refuses its address; any other error of the step */
export async function waitForDatabase<T>(
  step: () => Promise<T>,
  { logger, signal, onWait }: Start,
): Promise<T> {
  let saidAt: number | null = null;
  for (;;) {
    signal.throwIfAborted();
    try {
      const done = await step();
      if (saidAt !== null) logger.info('the database is reachable again; the start continues');
      onWait(null);
      return done;
    } catch (error) {
      signal.throwIfAborted();
      const refusal = findRefusal(error);
      if (refusal !== null) throw new StartError(`DATABASE_URL: ${refusal}. Then start again.`);
      if (!isDatabaseUnavailable(error)) throw error;
      const reason = reasonOf(error);
      onWait(reason);
      if (saidAt === null || performance.now() - saidAt >= sayEveryMs) {
        logger.warn(
          `The database at DATABASE_URL is ${reason}. The start continues when it is reachable.`,
        );
        saidAt = performance.now();
      }
    }
    await sleep(tryEveryMs, undefined, { signal });
  }
}

/** Without internal addresses and names, because the probes show it too. */
function reasonOf(error: unknown): string {
  const code = codeOf(error);
  if (isReadOnly(error)) return `read-only (${code})`;
  if (isFull(error)) return `out of connections (${code})`;
  return code === '' ? 'unreachable' : `unreachable (${code})`;
}

function codeOf(error: unknown): string {
  const [first] = error instanceof AggregateError ? error.errors : [error];
  return first instanceof Error && 'code' in first ? String(first.code) : '';
}
