import type { Destination, FileFacts } from '../destinations/destination.ts';
import { SluiceError } from '../domain/errors.ts';

/** Facts of an object. Null if there is none, and also if the credentials cannot read. */
export async function mayStat(
  destination: Destination,
  key: string,
  signal: AbortSignal,
): Promise<FileFacts | null> {
  return destination.statFile(key, signal).catch((error: unknown) => {
    if (error instanceof SluiceError && error.code === 'destination.access_denied') return null;
    throw error;
  });
}
