import closeWithGrace from 'close-with-grace';
import { type Config, ConfigError } from '../config/config.ts';
import { SchemaError } from '../store/migrate.ts';
import { installFailpoints } from './failpoints.ts';
import { type Foundation, openFoundation } from './foundation.ts';

/** A part of a process that can be closed. */
export interface Part {
  close(): Promise<void>;
}

/** Notes a part to be closed at the end of the process; the last one noted is closed first. */
export type Keep = <P extends Part>(part: P) => P;

/**
 * The life of a process: open, start the parts, serve until SIGTERM or SIGINT, close the parts in
 * reverse order. A second SIGINT or the end of the grace ends it at once; a second SIGTERM is what
 * supervisors send, and changes nothing.
 *
 * @param start starts the parts; may call `end` to end the process as a signal would
 */
export async function runProcess(
  role: string,
  config: Config,
  start: (foundation: Foundation, keep: Keep, end: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const parts: Part[] = [];
  const closeParts = async () => {
    for (const part of parts.splice(0).toReversed()) await part.close();
  };
  try {
    installFailpoints();
    const foundation = await openFoundation(config, role);
    parts.push(foundation);
    const { logger } = foundation;
    const closing = closeWithGrace(
      { delay: config.SHUTDOWN_GRACE_SECONDS * 1_000, logger },
      async ({ err, signal }) => {
        process.removeAllListeners('SIGTERM').on('SIGTERM', () => {});
        if (err) logger.fatal({ err }, 'ended by an error');
        else if (signal) logger.info({ signal }, 'shutting down');
        await closeParts();
      },
    );
    const keep: Keep = (part) => {
      parts.push(part);
      return part;
    };
    await start(foundation, keep, async () => {
      closing.uninstall();
      await closeParts();
    });
  } catch (error) {
    process.stderr.write(`sluice ${role}: ${describeFault(error)}\n`);
    process.exitCode = 1;
    await closeParts();
    process.exit();
  }
}

/** For standard error: a fault of the configuration says all by itself, others show where. */
export function describeFault(error: unknown): string {
  if (error instanceof ConfigError || error instanceof SchemaError) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
