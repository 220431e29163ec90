import { buffer } from 'node:stream/consumers';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { fencesManifests } from '../../foundation/domain/store-traits.ts';
import type { TableAttempt } from '../../rows/pipeline/table-format.ts';
import type { Destination } from '../../rows/destinations/destination.ts';
import type { TableObjects } from './table-objects.ts';

/** For what nothing needs at once. A store may answer with any number of empty pages. */
const listPatienceMs = 60_000;

/** A table at a destination. @param run that writes */
export function objectsOf(
  destination: Destination,
  signal?: AbortSignal,
  run?: Pick<TableAttempt['ports'], 'lease' | 'journal'>,
): TableObjects {
  return {
    async read(key, maxBytes) {
      const options = { maxBytes, ...(signal && { signal }) };
      const object = await destination.readFile(key, options).catch(nameRights);
      return object && { bytes: await buffer(object.body), etag: object.etag };
    },
    async put(key, bytes, expected) {
      try {
        const options = {
          confirm: refuse,
          signal,
          ...(run && { lease: run.lease, journal: run.journal }),
        };
        await destination.commitManifest(key, bytes, expected, options);
        return true;
      } catch (error) {
        if (error instanceof SluiceError && error.code === 'destination.conflict') return false;
        throw error;
      }
    },
    list: (prefix) => {
      const limit = AbortSignal.timeout(listPatienceMs);
      return destination.listFiles(prefix, signal ? AbortSignal.any([signal, limit]) : limit);
    },
    ...(destination.holds && { holds: destination.holds }),
    remove: (keys) => destination.deleteFiles(keys, signal),
  };
}

const conditions =
  'table_format iceberg needs a store that supports conditional writes (If-None-Match and If-Match on PutObject)';

/** An unconditional put could replace the version of another writer. */
async function refuse(): Promise<void> {
  throw new SluiceError('destination.invalid_config', `${conditions}, and this one does not`);
}

function nameRights(error: unknown): never {
  if (!(error instanceof SluiceError) || error.code !== 'destination.access_denied') throw error;
  const detail =
    'an Iceberg table needs permission to read and list what is below its prefix (s3:GetObject, s3:ListBucket)';
  throw new SluiceError('destination.access_denied', detail, error);
}

/** @throws SluiceError `destination.invalid_config` if two writers of the table could overwrite each other's versions */
export function checkStore({ traits }: Pick<Destination, 'traits'>): void {
  if (traits === null) {
    const detail = `${conditions}. It could not be probed: allow the credentials to write and delete objects below the prefix`;
    throw new SluiceError('destination.invalid_config', detail);
  }
  if (!fencesManifests(traits)) {
    const detail = `${conditions}, and this one does not`;
    throw new SluiceError('destination.invalid_config', detail);
  }
}
