/** What one way took, once. */
export interface Taken {
  readonly wallMs: number;
  /** Of the process alone, not of the database or the sink; null if it is a shell's. */
  readonly cpuMs: number | null;
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
  const counted = await work();
  const wallMs = performance.now() - startedAt;
  const { user, system } = process.cpuUsage(startedCpu);
  const peakMib = process.resourceUsage().maxRSS / 1024;
  const taken: Taken = { wallMs, cpuMs: (user + system) / 1000, peakMib, ...counted };
  process.send?.(taken, () => process.exit());
}
