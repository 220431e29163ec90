import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { Problem } from '../../../foundation/domain/problem.ts';
import type { S3Connection } from './client.ts';
import type { S3Config } from './config.ts';
import { StoreError } from './errors.ts';
import { readList } from './objects.ts';
import { textIn } from './xml.ts';

/**
 * An address that already contains the bucket: each key then begins with the bucket's name once more, and no other program
 * finds the objects. A host can have the name of a bucket by chance, so only one that a store's own host follows counts
 * here; `findWrongAddress` finds the others.
 */
export function checkBucketInEndpoint({ endpoint_url, bucket_name }: S3Config): Problem[] {
  if (endpoint_url === null || !URL.canParse(endpoint_url)) return [];
  const { hostname, pathname } = new URL(endpoint_url);
  const bucket = bucket_name.toLowerCase();
  const lastFolder = pathname.split('/').filter(Boolean).at(-1);
  const rest = hostname.startsWith(`${bucket}.`) ? hostname.slice(bucket.length + 1) : '';
  const isStoreHost = rest.split('.').length > 2 || rest === 'localhost';
  if (lastFolder !== bucket_name && !isStoreHost) return [];
  const detail = `The address already contains the bucket. Remove ${bucket_name} from endpoint_url.`;
  return [{ attr: 'endpoint_url', code: 'invalid_input', detail }];
}

/** Lists one key of the bucket. @returns what is wrong with the address, or null */
export async function findWrongAddress(
  connection: S3Connection,
  folder: string,
  signal: AbortSignal,
): Promise<string | null> {
  const { bucket } = connection;
  try {
    const query = { 'list-type': '2', prefix: folder, 'max-keys': '1' };
    const name = textIn(await readList(connection, query, signal), 'Name');
    if (name === '' || name.includes(bucket)) return null;
    return `the store lists ${name.slice(0, 63)} instead of ${bucket}. ${remedy}`;
  } catch (error) {
    const cause = error instanceof SluiceError ? error.cause : undefined;
    // Then the path of a list is that of an object.
    if (!(cause instanceof StoreError) || cause.name !== 'NoSuchKey') throw error;
    return `the store takes the bucket for an object. ${remedy}`;
  }
}

const remedy = 'endpoint_url seems to contain the bucket already: remove it there.';
