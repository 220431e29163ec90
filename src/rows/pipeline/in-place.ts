import { SluiceError } from '../../foundation/domain/errors.ts';
import { manifestKey } from '../../foundation/domain/object-keys.ts';
import { allTraits, type Destination, type FileFacts } from '../destinations/destination.ts';
import type { HashedFile } from './file-set.ts';
import type { Delivery, IntervalJob, RunPorts } from './interval-job.ts';
import { readManifestAt } from './manifest.ts';

/** Maximum tries if another attempt replaces a file at the same time. */
const inPlaceTries = 4;

/** Replaces the object at the key, if it is what the receipt or a later read says, and no other export's. */
export async function completeInPlace(
  { destination, job, ports, signal }: Delivery,
  writer: HashedFile,
): Promise<{ readonly etag: string | null }> {
  const recorded = [...(job.current?.files ?? []), ...(job.current?.rejectedFiles ?? [])];
  const own = recorded.find(({ key }) => key === writer.key);
  let expected = own?.etag ?? null;
  const look = async () => {
    await checkUnnamed(destination, job, writer.key, signal);
    // The order matters: a tag that is read after the fence may be of an attempt that took over.
    const object = await destination.statFile(writer.key, signal);
    await checkOwn(job, writer.key, object, own?.etag, ports);
    await ports.lease.extend(true);
    return object?.etag ?? null;
  };
  for (let tried = 1; ; tried += 1) {
    try {
      // Before the first probe a store is assumed to behave like S3.
      const { completeIfMatch, completeIfNoneMatch } = destination.traits ?? allTraits;
      if (!(completeIfMatch && completeIfNoneMatch)) await look();
      return await writer.complete({ replaces: expected, lease: ports.lease });
    } catch (error) {
      const conflict = error instanceof SluiceError && error.code === 'destination.conflict';
      if (!conflict || tried === inPlaceTries) throw error;
      expected = await look();
    }
  }
}

/**
 * @param recorded the tag of the receipt, if that names the key
 * @throws SluiceError `destination.key_taken` if this export did not write the object; `run.unknown_history` if a
 *   database with another history did
 */
async function checkOwn(
  { exportId }: IntervalJob,
  key: string,
  found: FileFacts | null,
  recorded: string | null = null,
  ports: Pick<RunPorts, 'knowsCommit'>,
): Promise<void> {
  if (found === null) return;
  const isRecorded = recorded !== null && found.etag === recorded;
  if (found.owner ? found.owner !== exportId : !isRecorded) {
    throw new SluiceError('destination.key_taken', key);
  }
  if (isRecorded || (await knowsFile(found, key, ports.knowsCommit))) return;
  throw new SluiceError('run.unknown_history', `${key} is of run ${found.run?.id ?? 'unknown'}`);
}

/**
 * @throws SluiceError `destination.key_taken` if the current manifest of another export names the key;
 *   `destination.conflict` if one of this export does, which our database does not know
 */
async function checkUnnamed(
  destination: Destination,
  job: IntervalJob,
  key: string,
  signal: AbortSignal,
): Promise<void> {
  const at = manifestKey(job.names);
  const reading = await readManifestAt(destination, at, signal);
  if (reading === null || reading === 'denied' || reading.manifest === null) return;
  const { files, rejected_files: rejected, batch_export_id: owner } = reading.manifest;
  if (![...files, ...rejected].some((file) => file.key === key)) return;
  const isOurs = owner === job.exportId;
  throw new SluiceError(isOurs ? 'destination.conflict' : 'destination.key_taken', key);
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
