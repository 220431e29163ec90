import type { Destination, FileFacts } from '../destinations/destination.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { manifestKey } from '../../foundation/domain/object-keys.ts';
import type { IntervalJob, RunPorts } from './interval-job.ts';
import { type FoundManifest, readManifestAt } from './manifest.ts';

export const noManifest: FoundManifest = { manifest: null, etag: null };

/**
 * Reads the manifest at an interval's key. If the credentials cannot read, our own record is used.
 *
 * @throws SluiceError `destination.key_taken` if the object is another export's, or not a manifest of ours:
 *   this export must not replace it; `run.unknown_history` if a database with another history has committed it
 */
export async function findManifest(
  destination: Destination,
  job: IntervalJob,
  ports: Pick<RunPorts, 'knowsCommit'>,
  signal: AbortSignal,
): Promise<FoundManifest> {
  if (!job.writesManifest) return noManifest;
  const key = manifestKey(job.names);
  const reading = await readManifestAt(destination, key, signal);
  if (reading === null) return noManifest;
  const isRecorded = job.current?.manifestKey === key;
  if (reading === 'denied') {
    return { manifest: null, etag: isRecorded ? job.current.manifestEtag : null };
  }
  if (reading.manifest?.batch_export_id !== job.exportId) {
    throw new SluiceError('destination.key_taken', key);
  }
  if (isRecorded && job.current.manifestEtag === reading.etag) return reading;
  if (await ports.knowsCommit(reading.manifest, key, reading.modifiedAt)) return reading;
  throw new SluiceError('run.unknown_history', `${key} is of run ${reading.manifest.run_id}`);
}

/**
 * Says whether the attempt need not read the manifest. The first commit of an interval expects that there is none, and a store that
 * keeps If-None-Match refuses files and manifest if there is one. With many rows it reads, so that they are not read in vain.
 */
export function expectsNoManifest(
  job: IntervalJob,
  { traits }: Pick<Destination, 'traits'>,
): boolean {
  const isFirst = job.generation === 1 && job.attempt === 1 && !job.mayBeOvertaken;
  const isRefused = traits?.ifNoneMatch === true && traits.completeIfNoneMatch;
  return isFirst && isRefused && job.isSmall === true && job.current === null && !job.table;
}

/** Says whether a run of our database's history wrote the file at a key. It says so itself, for no manifest names its run. */
export async function knowsFile(
  { run, modifiedAt }: FileFacts,
  key: string,
  knows: RunPorts['knowsCommit'],
): Promise<boolean> {
  // Files that are replaced in place keep the first generation.
  return !!run && knows({ run_id: run.id, generation: 1, era: run.era }, key, modifiedAt);
}
