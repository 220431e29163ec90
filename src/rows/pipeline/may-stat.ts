import type { Destination, FileFacts } from '../destinations/destination.ts';
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
