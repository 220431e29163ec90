import { readFileSync } from 'node:fs';

/** What one way took, once. */
export interface Taken {
  readonly wallMs: number;
  /** Of the process alone, not of the database or the sink; null if it is a shell's. */
  readonly cpuMs: number | null;
  /** Of the processes it started and that have ended, as those of own plugins; null if it cannot be had. */
  readonly childrenCpuMs: number | null;
  readonly peakMib: number | null;
  /** Null if the way does not count them. */
  readonly rows: number | null;
  /** Of the objects; null if the way does not count them. */
  readonly bytes: number | null;
}

/** Times the work of this process, reports to the parent and ends. */
export async function reportTaken(
  work: () => Promise<{ readonly rows: number; readonly bytes: number | null }>,
): Promise<void> {
  const startedAt = performance.now();
  const startedCpu = process.cpuUsage();
  const startedChildrenMs = readChildrenCpuMs();
  const counted = await work();
  const wallMs = performance.now() - startedAt;
  const { user, system } = process.cpuUsage(startedCpu);
  const peakMib = process.resourceUsage().maxRSS / 1024;
  const cpuMs = (user + system) / 1000;
  const childrenMs = readChildrenCpuMs();
  const childrenCpuMs =
    childrenMs === null || startedChildrenMs === null ? null : childrenMs - startedChildrenMs;
  const taken: Taken = { wallMs, cpuMs, childrenCpuMs, peakMib, ...counted };
  process.send?.(taken, () => process.exit());
}

/** Of children that this process has waited for; null on a system without `/proc`. */
function readChildrenCpuMs(): number | null {
  try {
    const text = readFileSync('/proc/self/stat', 'utf8');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[13]) + Number(fields[14])) * 10;
  } catch {
    return null;
  }
}
