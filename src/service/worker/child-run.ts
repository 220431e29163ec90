import { writeFile } from 'node:fs/promises';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { aliveEveryMs, type FromChild, type ToChild } from './run-alone.ts';

/** A child without its worker has this long to stop; the fence checks each of its writes anyway. */
const orphanMs = 5_000;

/**
 * The life of a process that does one job of a worker, such as a run: waits for it, does it, reports and exits. Ends itself when
 * its worker ends, however that happened, because the worker keeps the lease.
 */
export function serveJob<Report>(
  execute: (setup: unknown, job: unknown, signal: AbortSignal) => Promise<Report>,
): void {
  const stopping = new AbortController();
  const stop = (error: SluiceError) => stopping.abort(error);
  // If the machine runs out of memory, the system ends this process first.
  writeFile('/proc/self/oom_score_adj', '1000').catch(() => {});
  // Ctrl-C reaches every process of the terminal. The job is handed back, as in its worker.
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(name, () => stop(new SluiceError('run.released')));
  }
  process.on('disconnect', () => {
    stop(new SluiceError('run.lease_lost'));
    setTimeout(() => process.exit(), orphanMs).unref();
  });
  process.on('message', (message: ToChild) => {
    if (message.kind === 'stop') stop(new SluiceError(message.code));
    else void work(() => execute(message.setup, message.job, stopping.signal));
  });
  setInterval(() => send({ kind: 'alive' }), aliveEveryMs);
  // The worker may have ended while this program was loading: no event reports that any more.
  if (!process.connected) process.exit();
}

async function work<Report>(execute: () => Promise<Report>): Promise<void> {
  const report = await execute();
  send({ kind: 'ended', report }, () => process.exit());
}

function send<Report>(message: FromChild<Report>, sent: () => void = () => {}): void {
  // Without its worker nothing can be reported; `disconnect` follows.
  if (process.connected) process.send?.(message, sent);
  else sent();
}
