import closeWithGrace from 'close-with-grace';
import { ConfigError, readConfig } from '../config/config.ts';
import { type Foundation, openFoundation } from './foundation.ts';

/** A part of a process that can be closed. */
export interface Part {
  close(): Promise<void>;
}

/** Notes a part to be closed at the end of the process; the last one noted is closed first. */
export type Keep = <P extends Part>(part: P) => P;

/**
 * The life of a process: read the configuration, open, start the parts, serve until SIGTERM or
 * SIGINT, close the parts in reverse order. A second signal or the end of the grace ends it at once.
 */
export async function runProcess(
  role: string,
  start: (foundation: Foundation, keep: Keep) => Promise<void>,
): Promise<void> {
  const parts: Part[] = [];
  const closeParts = async () => {
    for (const part of parts.toReversed()) await part.close();
  };
  try {
    const config = readConfig();
    const foundation = await openFoundation(config, role);
    parts.push(foundation);
    await start(foundation, (part) => {
      parts.push(part);
      return part;
    });
    closeWithGrace(
      { delay: config.SHUTDOWN_GRACE_SECONDS * 1_000, logger: foundation.logger },
      async ({ err, signal }) => {
        if (err) foundation.logger.fatal({ err }, 'ended by an error');
        else foundation.logger.info({ signal }, 'shutting down');
        await closeParts();
      },
    );
  } catch (error) {
    await closeParts();
    const text = error instanceof ConfigError ? error.message : describe(error);
    process.stderr.write(`sluice ${role}: ${text}\n`);
    process.exitCode = 1;
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
