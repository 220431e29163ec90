import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import type { Destination } from '../destinations/destination.ts';
import type { ManifestFile } from '../../foundation/domain/receipt.ts';

/**
 * Downloads a delivered file to `path`.
 *
 * @returns what is wrong with its bytes; null if they are those of its entry
 * @throws SluiceError `destination.*`
 */
export async function fetchFile(
  destination: Destination,
  { key, bytes, sha256 }: Pick<ManifestFile, 'key' | 'bytes' | 'sha256'>,
  path: string,
  signal?: AbortSignal,
): Promise<string | null> {
  const object = await destination.readFile(key, signal && { signal });
  if (!object) return `${key} is missing`;
  const hash = createHash('sha256');
  let size = 0;
  const file = await open(path, 'w', 0o600);
  try {
    for await (const chunk of object.body) {
      hash.update(chunk);
      size += chunk.byteLength;
      // A store may send without end.
      if (size > bytes) return `${key} has more bytes than the ${bytes} of its manifest`;
      await file.writeFile(chunk);
    }
  } finally {
    await file.close();
  }
  if (size !== bytes) return `${key} has ${size} bytes, its manifest says ${bytes}`;
  if (hash.digest('hex') === sha256) return null;
  return `${key} does not have the checksum of its manifest`;
}
