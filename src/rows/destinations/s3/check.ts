import { setImmediate } from 'node:timers/promises';
import { describeError } from '../../../foundation/domain/describe-error.ts';
import { type ErrorCode, SluiceError, toSluiceError } from '../../../foundation/domain/errors.ts';
import { describeMissingTraits } from '../../../foundation/domain/store-traits.ts';
import {
  type CheckStep,
  type DestinationContext,
  type StoreTraits,
  unrecorded,
} from '../destination.ts';
import { findWrongAddress } from './address.ts';
import type { S3Connection } from './client.ts';
import { codeOf, isDeniedUpload, isUnreached, isUnsupported } from './errors.ts';
import { deleteObjects, headObject } from './objects.ts';
import { markerKey, probeStore } from './probe.ts';
import { putSmallObject } from './put-object.ts';
import { openDigest } from './parts.ts';
import { abortUpload } from './upload-doubts.ts';
import { createUpload, openWriter, uploadPart } from './writer.ts';

/** The part of the config that an error is about; other errors belong to the current step. */
const stepOfCode: Partial<Record<ErrorCode, string>> = {
  'destination.endpoint_forbidden': 'address',
  'destination.invalid_credentials': 'credentials',
  'destination.expired_credentials': 'credentials',
  'destination.bucket_not_found': 'bucket',
  'destination.wrong_region': 'bucket',
  'destination.kms_denied': 'encryption',
};

/** Short, because a person waits for the answer. */
const checkRetry = { maxAttempts: 2, baseMs: 200, capMs: 1000 };

/** Tries what a run does, step by step; stops at the first failure. */
export async function checkDestination(
  connection: S3Connection,
  folder: string,
  context: DestinationContext,
  signal: AbortSignal,
): Promise<readonly CheckStep[]> {
  const hurried: S3Connection = {
    ...connection,
    request: (call, own) => connection.request(call, AbortSignal.any([own, signal]), checkRetry),
  };
  /** Its requests end with the signal that they are given. */
  const patient: S3Connection = {
    ...connection,
    request: (call, own, policy = checkRetry) => connection.request(call, own, policy),
  };
  const key = markerKey(folder, unrecorded);
  const steps: CheckStep[] = [];
  let current = 'address';
  const check = async (step: string, run: () => Promise<string | null>): Promise<void> => {
    current = step;
    steps.push(passedStep(step, await run()));
  };
  try {
    const warning = await tryListing(hurried, folder, signal);
    steps.push(passedStep('address'), passedStep('credentials'), passedStep('bucket', warning));
    let onlySmall: string | null = null;
    await check('write', async () => {
      onlySmall = await writeMarker(hurried, key, context, signal);
      return onlySmall;
    });
    current = 'conditional_write';
    const traits = await probeStore(patient, folder, signal);
    current = 'write';
    const slow =
      onlySmall ?? (await sendPart({ ...hurried, traits }, key, context.partBytes, signal));
    const at = steps.findIndex(({ step }) => step === 'write');
    steps.splice(at, 1, passedStep('write', slow));
    current = 'delete';
    steps.push(...traitSteps(traits));
    if (connection.encryption !== null) {
      await check('encryption', () => findEncryption(hurried, key));
    }
    await check('delete', async () => {
      await deleteObjects(hurried, [key]);
      return null;
    });
  } catch (caught) {
    addFailure(steps, current, toSluiceError(caught));
    // The marker may exist. A failure to remove it is not the failure to report.
    if (current !== 'address' && current !== 'delete') {
      await deleteObjects(hurried, [key]).catch(() => {});
    }
  }
  return steps;
}

function passedStep(step: string, warning: string | null = null): CheckStep {
  return { step, passed: true, error: null, warning };
}

/** An error belongs to the step that it is about. The first request tests address, credentials and bucket, in this order. */
function addFailure(steps: CheckStep[], current: string, error: SluiceError): void {
  const failed = stepOfCode[error.code] ?? current;
  if (steps.length === 0) {
    const first = ['address', 'credentials', 'bucket'];
    steps.push(
      ...first.slice(0, Math.max(0, first.indexOf(failed))).map((each) => passedStep(each)),
    );
  }
  const before = steps.findIndex((each) => each.step === failed);
  if (before >= 0) steps.splice(before);
  // Before the first answer one text for all: a tenant must not learn which names and ports exist.
  const isHidden = steps.length === 0 && isUnreached(error);
  const text = isHidden ? unreached : describeError(error);
  steps.push({ step: isHidden ? 'address' : failed, passed: false, error: text, warning: null });
}

const unreached =
  'destination.unavailable: The endpoint cannot be reached: its name does not resolve, its address is not allowed, or nothing answers there. Check endpoint_url. For an endpoint on a private network, ask your operator to add it to ALLOWED_PRIVATE_ENDPOINTS.';

/** The first request. @returns a warning if listing is denied; only `verify` needs it */
async function tryListing(
  connection: S3Connection,
  folder: string,
  signal: AbortSignal,
): Promise<string | null> {
  try {
    const problem = await findWrongAddress(connection, folder, signal);
    if (problem === null) return null;
    throw new SluiceError('destination.invalid_config', problem);
  } catch (error) {
    const lacks = isUnsupported(error) ? 'The store has no list (ListObjectsV2)' : null;
    if (lacks === null && codeOf(error) !== 'destination.access_denied') throw error;
    return `${lacks ?? 'The credentials are not allowed to list the bucket'}, so \`sluice verify\` cannot find stray files.`;
  }
}

/** @returns a warning if only a put in one request is allowed */
async function writeMarker(
  connection: S3Connection,
  key: string,
  context: DestinationContext,
  signal: AbortSignal,
): Promise<string | null> {
  const body = Buffer.from('Sluice tests this destination. It removes this file itself.\n');
  const options = { key, contentType: 'text/plain', contentEncoding: null };
  try {
    const writing = { connection, limits: context, journal: unrecorded };
    const writer = await openWriter(writing, options);
    try {
      await writer.write(body);
      await writer.complete();
    } catch (error) {
      await writer.abort().catch(() => {});
      throw error;
    }
    return null;
  } catch (error) {
    if (!isDeniedUpload(error)) throw error;
    await putSmallObject(connection, key, body, null, { signal });
    return `Only files of less than ${context.partBytes} bytes can be written. ${describeError(toSluiceError(error))}`;
  }
}

/** Time for the part: of the test's time enough is left for its other steps. */
const partMs = 10_000;

/**
 * Sends one part as long as those of a run, which a proxy before the store may refuse for its size, and aborts its upload.
 *
 * @returns a warning if there was not enough time
 */
async function sendPart(
  connection: S3Connection,
  key: string,
  bytes: number,
  signal: AbortSignal,
): Promise<string | null> {
  const soon = AbortSignal.any([signal, AbortSignal.timeout(partMs)]);
  const options = { key, contentType: 'text/plain' };
  const { upload, checksums } = await createUpload(connection, options, soon);
  const digest = openDigest(connection, checksums);
  const part = Buffer.alloc(bytes);
  try {
    for (let at = 0; at < bytes; at += digestBytes) {
      digest.update(part.subarray(at, at + digestBytes));
      await setImmediate();
    }
    await uploadPart(connection, upload, 1, part, digest.end(), soon);
    return null;
  } catch (error) {
    if (signal.aborted || !soon.aborted) throw error;
    return `A part of ${bytes} bytes, as runs send them, took longer than ${partMs / 1_000} seconds, so the test cannot say whether the store takes it.`;
  } finally {
    await abortUpload(connection, upload).catch(() => {});
  }
}

/** The digest of a whole part would keep other requests waiting. */
const digestBytes = 256 * 1024;

/** One step per kind of trait. Something that the store does not support is a warning, not a failure. */
function traitSteps(traits: StoreTraits): readonly CheckStep[] {
  const missing = describeMissingTraits(traits);
  const warn = (step: string, ...names: readonly (keyof StoreTraits)[]) => {
    const texts = missing.filter(({ trait }) => names.includes(trait)).map(({ text }) => text);
    return passedStep(step, texts.length === 0 ? null : texts.join(' '));
  };
  return [
    warn('conditional_write', 'ifNoneMatch', 'ifMatch'),
    warn('conditional_complete', 'completeIfNoneMatch', 'completeIfMatch'),
    warn('checksums', 'checksums'),
  ];
}

async function findEncryption(connection: S3Connection, key: string): Promise<null> {
  const algorithm = connection.encryption;
  const reported = (await headObject(connection, key))?.ServerSideEncryption ?? 'none';
  if (reported === algorithm) return null;
  const detail = `asked for encryption ${algorithm}, the store reports ${reported}`;
  throw new SluiceError('destination.invalid_config', detail);
}
