import { setTimeout as sleep } from 'node:timers/promises';
import { CliError, exitCodes, type Terminal } from '../deps.ts';

const pauseMs = 1_000;
/** A minute: longer than a restart or a failover takes. */
const maxTries = 60;

/**
 * For a command that waits: a service that restarts must not end it.
 *
 * @throws what `ask` throws, unless the service is unreachable; then only after a minute of it
 */
export async function keepAsking<T>({ err, signal }: Terminal, ask: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      const isUnreachable = error instanceof CliError && error.exitCode === exitCodes.unreachable;
      if (!isUnreachable || tries === maxTries) throw error;
      if (tries === 1) err(`${error.message} Asking again for a minute …\n`);
      await sleep(pauseMs, undefined, { signal });
    }
  }
}
