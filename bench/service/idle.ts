import { readFile } from 'node:fs/promises';

const sampleMs = 10;

/**
 * Samples whether any task of the machine wants a core, besides this process while it looks. Linux only.
 *
 * @returns ends it; the share of samples in which no core was busy
 */
export function watchIdle(): () => number {
  let samples = 0;
  let idle = 0;
  const timer = setInterval(async () => {
    const running = /^procs_running (\d+)$/m.exec(await readFile('/proc/stat', 'utf8'))?.[1];
    samples += 1;
    if (running === '1') idle += 1;
  }, sampleMs);
  return () => {
    clearInterval(timer);
    return idle / Math.max(1, samples);
  };
}
