import { createHash } from 'node:crypto';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { RetryPolicy } from '../../../foundation/domain/retry-policy.ts';
import type { ManifestTag, PutLease, StoreTraits } from '../destination.ts';
import type { S3Connection } from './client.ts';
import { conditionFor, isSameTag, type PutCondition } from './conditions.ts';
import { isCollision, isNotImplemented } from './errors.ts';
import { readObject } from './objects.ts';
import { once, type Put, putSmallObject } from './put-object.ts';

interface CommitOptions {
  /** Checks the run's fence; throws if it is lost. */
  readonly confirm: () => Promise<void>;
  /** Probes again how the store treats conditional puts, and sets the connection's traits. */
  readonly probe: () => Promise<StoreTraits>;
  /** MD5 digests of manifests that may be replaced, for credentials that may not read. */
  readonly ours: readonly string[];
  /** The lease of the run; undefined: the put may come at any time. */
  readonly lease: PutLease | undefined;
  readonly signal: AbortSignal;
}

interface ManifestPut extends CommitOptions {
  readonly connection: S3Connection;
  readonly key: string;
  readonly body: Uint8Array;
  readonly expected: ManifestTag;
}

/** The store does not behave as its traits say. */
const contradiction = Symbol('contradiction');

/**
 * Puts the manifest if the current one is still `expected`. If the store refuses because of our own
 * earlier put, whose answer was lost, that is a success: the current object has exactly these bytes.
 *
 * If a store wrongly refuses a condition, or no longer supports it, it is probed once more. If it
 * refuses again, only the fence protects the put: a conflict without another writer must not return
 * forever.
 */
export async function commitManifest(
  connection: S3Connection,
  key: string,
  body: Uint8Array,
  expected: ManifestTag,
  options: CommitOptions,
): Promise<Put> {
  const { probe } = options;
  const put = { ...options, connection, key, body, expected };
  const attempt = (isLast: boolean) => {
    const condition = conditionFor(expected, connection.traits);
    return condition === null ? putUnguarded(put) : putGuarded(put, condition, isLast);
  };
  const first = await attempt(false);
  if (first !== contradiction) return first;
  await probe();
  const second = await attempt(true);
  if (second !== contradiction) return second;
  connection.traits = withoutCondition(connection.traits ?? (await probe()), expected);
  return await putUnguarded(put);
}

async function putGuarded(
  put: ManifestPut,
  condition: PutCondition,
  isLast: boolean,
): Promise<Put | typeof contradiction> {
  const { body, expected } = put;
  try {
    return await putChecked(put, condition);
  } catch (error) {
    if (isNotImplemented(error)) return contradiction;
    if (!(error instanceof SluiceError) || error.code !== 'destination.conflict') throw error;
    const current = await readUnlessDenied(put);
    if (current === 'unseen') {
      if (isCollision(error)) throw error;
      return await putOverOurs(put);
    }
    const tag = current?.etag ?? null;
    if (current !== null && (await hasBytes(current.body, body))) return { etag: tag };
    // The condition was true, yet the store refused.
    if (isSameTag(tag, expected) && (current === null) === (expected === null)) {
      // A collision says nothing about the condition, so conditional writes stay on.
      if (!(isLast && isCollision(error))) return contradiction;
    }
    throw error;
  }
}

/**
 * For credentials that cannot read: the existing manifest may be ours, either because an answer was
 * lost or because its worker died. The tag of an object sent in one request is its MD5, so it is
 * replaced on that tag. With KMS a tag is not an MD5.
 *
 * @throws SluiceError `destination.access_denied` if no digest matches
 */
async function putOverOurs(put: ManifestPut): Promise<Put> {
  const { connection, key, body } = put;
  // Our own goes last: an earlier put may have succeeded though its answer was lost.
  const own = createHash('md5').update(body).digest('hex');
  for (const digest of [...put.ours, own]) {
    const condition = conditionFor(digest, connection.traits);
    if (condition === null) break;
    try {
      return await putChecked(put, condition);
    } catch (error) {
      if (!(error instanceof SluiceError) || error.code !== 'destination.conflict') throw error;
      if (isCollision(error)) throw error;
    }
  }
  const why =
    connection.encryption === 'aws:kms'
      ? 'With KMS encryption its tag does not say whether Sluice put it.'
      : 'Its tag matches no manifest that Sluice put there.';
  const detail = `there is a manifest at ${key}. ${why} Grant the credentials permission to read it (s3:GetObject)`;
  throw new SluiceError('destination.access_denied', detail);
}

/** Returns `unseen` if the credentials cannot read. */
async function readUnlessDenied({ connection, key, signal }: ManifestPut) {
  return readObject(connection, key, { signal }).catch((error: unknown) => {
    const { code } = error as Partial<SluiceError>;
    if (code === 'destination.access_denied') return 'unseen' as const;
    throw error;
  });
}

/** Without a condition: look, check the fence, then put at once. */
async function putUnguarded(put: ManifestPut): Promise<Put> {
  const { key, body, expected, confirm } = put;
  const current = await readUnlessDenied(put);
  if (current !== 'unseen') {
    const tag = current?.etag ?? null;
    if (current !== null && (await hasBytes(current.body, body))) return { etag: tag };
    if (!isSameTag(tag, expected)) throw new SluiceError('destination.conflict', key);
  }
  await confirm();
  // Not retried: a second copy could take effect after a later commit. The next attempt looks first.
  return await putChecked(put, null, once);
}

function withoutCondition(traits: StoreTraits, expected: ManifestTag): StoreTraits {
  return expected === null ? { ...traits, ifNoneMatch: false } : { ...traits, ifMatch: 'none' };
}

/**
 * Puts a manifest. If the tag that the store names is not the digest of these bytes (with KMS it never is), they are
 * read back: a proxy may have given the answer to another request.
 *
 * @throws SluiceError `destination.unavailable` if the object has other bytes
 */
async function putChecked(
  put: ManifestPut,
  condition: PutCondition,
  policy?: RetryPolicy,
): Promise<Put> {
  const { connection, key, body } = put;
  const answer = await putSmallObject(connection, key, body, condition, put, policy);
  const digest = createHash('md5').update(body).digest('hex');
  if (isSameTag(answer.etag, digest)) return answer;
  const current = await readUnlessDenied(put);
  if (current === 'unseen') return answer;
  if (current !== null && (await hasBytes(current.body, body))) return { etag: current.etag };
  throw new SluiceError('destination.unavailable', `the store took ${key}, but does not show it`);
}

/** Says whether a body is exactly these bytes. Stops at the first difference. */
export async function hasBytes(
  stream: AsyncIterable<Uint8Array>,
  bytes: Uint8Array,
): Promise<boolean> {
  let at = 0;
  for await (const chunk of stream) {
    const same = Buffer.compare(chunk, bytes.subarray(at, at + chunk.length)) === 0;
    if (!same) return false;
    at += chunk.length;
  }
  return at === bytes.length;
}
