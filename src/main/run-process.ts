import closeWithGrace from 'close-with-grace';
import { ConfigError, readConfig } from '../config/config.ts';
import { type Foundation, openFoundation } from './foundation.ts';

/** A part of a process that can be closed. */
export interface Part {
  close(): Promise<void>;
}

/**
 * The life of a process: read the configuration, open, start the parts, serve until SIGTERM or
 * SIGINT, close the parts in order. A second signal or the end of the grace ends it at once.
 */
export async function runProcess(
  role: string,
  start: (foundation: Foundation) => Promise<readonly Part[]>,
): Promise<void> {
  try {
    const config = readConfig();
    const foundation = await openFoundation(config, role);
    const parts = await start(foundation).catch(async (error: unknown) => {
      await foundation.close();
      throw error;
    });
    closeWithGrace(
      { delay: config.SHUTDOWN_GRACE_SECONDS * 1_000, logger: foundation.logger },
      async ({ err, signal }) => {
        if (err) foundation.logger.fatal({ err }, 'ended by an error');
        else foundation.logger.info({ signal }, 'shutting down');
        for (const part of parts) await part.close();
        await foundation.close();
      },
    );
  } catch (error) {
    const text = error instanceof ConfigError ? error.message : describe(error);
    process.stderr.write(`sluice ${role}: ${text}\n`);
    process.exitCode = 1;
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
