import type { Destination } from '../destinations/destination.ts';
import { toSluiceError } from '../../foundation/domain/errors.ts';
import type { CommitIntent, IntervalJob, RunPorts } from './interval-job.ts';
import { namedBy } from './leftovers.ts';
import { readManifestAt } from './manifest.ts';

/**
 * Cleans up after a commit that the store refused because of what another export, or another program, has put there. A key
 * with another's object is not ours, so its note is deleted. If another's manifest is at the key of ours, then no manifest
 * will ever name our files: they are deleted at once. What is not known stays as it is.
 *
 * @throws always `error`
 */
export async function cleanAfterRefusal(
  destination: Destination,
  job: IntervalJob,
  intent: CommitIntent,
  error: unknown,
  ports: RunPorts,
  signal: AbortSignal,
): Promise<never> {
  const { code } = toSluiceError(error);
  if (code === 'destination.conflict' || code === 'destination.key_taken') {
    // The refusal is what the run reports. Files that stay are on record.
    await withdraw(destination, job, intent, ports, signal).catch(() => {});
  }
  throw error;
}

async function withdraw(
  destination: Destination,
  job: IntervalJob,
  intent: CommitIntent,
  ports: RunPorts,
  signal: AbortSignal,
): Promise<void> {
  const { manifestKey } = intent;
  const keys = namedBy({ ...intent, manifestKey: null });
  const ours: string[] = [];
  const taken: string[] = [];
  for (const key of keys) {
    const found = await destination.statFile(key, signal);
    if (found !== null) (found.owner === job.exportId ? ours : taken).push(key);
  }
  if (taken.length > 0) await ports.withdraw(taken);
  // Another commit of the interval may still put a manifest of ours.
  if (manifestKey === null || job.begunManifests.length > 0 || job.mayBeOvertaken) return;
  const there = await readManifestAt(destination, manifestKey, signal);
  if (there === null || there === 'denied') return;
  if (there.manifest?.batch_export_id === job.exportId) return;
  await ports.confirmLease();
  await destination.deleteFiles(ours, signal);
  await ports.withdraw(keys.concat(manifestKey));
}
