import type { Destination, FileFacts } from '../destinations/destination.ts';
import type { RunPorts } from './interval-job.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';

/** Facts of an object: null if there is none, `denied` if the credentials cannot read. */
export async function mayStat(
  destination: Destination,
  key: string,
  signal: AbortSignal,
): Promise<FileFacts | null | 'denied'> {
  return destination.statFile(key, signal).catch((error: unknown) => {
    if (error instanceof SluiceError && error.code === 'destination.access_denied') return 'denied';
    throw error;
  });
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
