import { randomBytes, randomUUID } from 'node:crypto';
import { systemClock } from '../../../foundation/domain/clock.ts';
import { type ErrorCode, SluiceError } from '../../../foundation/domain/errors.ts';
import { markerPrefix } from '../../../foundation/domain/object-keys.ts';
import { usualParts } from '../../../foundation/domain/store-traits.ts';
import {
  type StoreTraits,
  unrecorded,
  type UploadJournal,
  type UploadRef,
} from '../destination.ts';
import { findWrongAddress } from './address.ts';
import { type S3Connection, sendTo } from './client.ts';
import { type PutCondition, type TagForm, tagInForm } from './conditions.ts';
import { codeOf, isDeniedUpload, isNotImplemented, StoreError } from './errors.ts';
import { hasBytes } from './manifest.ts';
import { deleteObjects, headObject, listObjects, readObject } from './objects.ts';
import { once, putSmallObject } from './put-object.ts';
import { isOwnObject } from './object-metadata.ts';
import { openDigest } from './parts.ts';
import { abortUpload } from './upload-doubts.ts';
import { completion, createUpload, uploadPart } from './writer.ts';

/** For removing marker objects and uploads, also after the probe was stopped. */
const cleanupMs = 5_000;

/**
 * Tries out what the store supports: each condition must allow a write that fits it and stop one that
 * does not. An answer that says neither means that the trait is absent. What ends every request (an outage, wrong
 * credentials) is thrown.
 *
 * All writes have one key beside the folder: there they wake no reader of the files. Credentials may allow the folder alone.
 *
 * @param folder of the files; '' for the top of the bucket
 * @throws SluiceError `destination.invalid_config` if the address is not that of the bucket
 */
export async function probeStore(
  connection: S3Connection,
  folder: string,
  signal: AbortSignal,
  journal: UploadJournal = unrecorded,
): Promise<StoreTraits> {
  const trial = trialOf(connection, signal);
  const problem = await findWrongAddress(trial, folder, signal).catch(() => null);
  if (problem) throw new SluiceError('destination.invalid_config', problem);
  for (const place of new Set([folder, parentOf(folder)])) await removeOldMarkers(trial, place);
  // If this process is killed, a sweep looks for the marker and its uploads.
  await journal.starting();
  try {
    return await probeAt(markerKey(parentOf(folder), journal), connection, trial, signal);
  } catch (error) {
    if (folder === '' || !isDeniedPut(error)) throw error;
    return await probeAt(markerKey(folder, journal), connection, trial, signal);
  }
}

function isDeniedPut(error: unknown): boolean {
  if (codeOf(error) !== 'destination.access_denied') return false;
  const { cause } = error as SluiceError;
  return cause instanceof StoreError && cause.operation === 'PutObject';
}

async function probeAt(
  key: string,
  connection: S3Connection,
  trial: S3Connection,
  signal: AbortSignal,
): Promise<StoreTraits> {
  const keys = [key];
  try {
    const puts = await probePuts(trial, key, signal);
    const form = puts.ifMatch === 'none' ? 'quoted' : puts.ifMatch;
    const isFree = await deleteObjects(trial, keys).then(
      () => true,
      () => false,
    );
    const second = isFree ? key : `${key}-upload`;
    if (!isFree) keys.push(second);
    const last = lastWords(connection);
    const uploads = new UploadTrial({ connection: trial, lastWords: last, key: second, signal });
    const uploadTraits = await uploads.run(form).catch((error: unknown) => {
      // Files that are smaller than a part are put at once. A larger one says why it cannot be written.
      if (puts.ifNoneMatch && isDeniedUpload(error)) return withoutUploads;
      throw error;
    });
    return { ...puts, ...uploadTraits, parts: connection.parts };
  } finally {
    // The permission to delete may be missing. This failure is not the result.
    await deleteObjects(connection, keys, AbortSignal.timeout(cleanupMs)).catch(() => {});
  }
}

/** The part of a probe that a manifest depends on. Begins no upload, so it leaves none behind. */
export async function probePutsOf(
  connection: S3Connection,
  folder: string,
  signal: AbortSignal,
  journal: UploadJournal = unrecorded,
): Promise<PutTraits> {
  // If this process is killed, or the removal fails, a sweep removes the marker.
  await journal.starting();
  const key = markerKey(folder, journal);
  try {
    return await probePuts(trialOf(connection, signal), key, signal);
  } finally {
    await deleteObjects(connection, [key], AbortSignal.timeout(cleanupMs)).catch(() => {});
  }
}

/** Assumptions about uploads that are denied. */
const withoutUploads = { completeIfNoneMatch: false, completeIfMatch: false, checksums: true };

type PutTraits = Pick<StoreTraits, 'ifNoneMatch' | 'ifMatch'>;

/** The folder that a folder is in; '' for the top of the bucket. */
function parentOf(folder: string): string {
  return folder.slice(0, Math.max(0, folder.lastIndexOf('/')));
}

export function markerKey(folder: string, { marker }: UploadJournal): string {
  return `${folder === '' ? '' : `${folder}/`}${markerPrefix}${marker}${randomUUID()}`;
}

function trialOf(connection: S3Connection, signal: AbortSignal): S3Connection {
  return {
    ...connection,
    // Earlier findings must not change the result.
    traits: null,
    request: (call, own, policy) =>
      connection.request(call, AbortSignal.any([own, signal]), policy),
  };
}

/** For what is left to do after the signal has ended the trial: no request is repeated. */
function lastWords(connection: S3Connection): S3Connection {
  return { ...connection, request: (call, own) => connection.request(call, own, once) };
}

async function probePuts(
  connection: S3Connection,
  key: string,
  signal: AbortSignal,
): Promise<PutTraits> {
  let version = 0;
  const put = async (condition: PutCondition): Promise<void> => {
    version += 1;
    const body = Buffer.from(`{"sluice":"tests this store","version":${version}}\n`);
    try {
      await putSmallObject(connection, key, body, condition, { signal });
    } catch (error) {
      // An earlier try of this put may have succeeded though its answer was lost.
      const object = isRefusal(error) ? await readObject(connection, key, { signal }) : null;
      if (object === null || !(await hasBytes(object.body, body))) throw error;
    }
  };
  const created = await outcomeOf(() => put({ IfNoneMatch: '*' }));
  // A failure here is not caused by a condition. Collisions are repeated.
  if (created !== 'done' && (await outcomeOf(() => put(null))) !== 'done') await put(null);
  const again = await outcomeOf(() => put({ IfNoneMatch: '*' }));
  const ifNoneMatch = created === 'done' && again === 'refused';
  for (const form of ['quoted', 'unquoted'] as const) {
    const tag = (await headObject(connection, key))?.ETag;
    if (!tag) break;
    const right = await outcomeOf(() => put({ IfMatch: tagInForm(tag, form) }));
    if (right !== 'done') continue;
    const wrong = await outcomeOf(() => put({ IfMatch: tagInForm(randomTag(), form) }));
    if (wrong === 'refused') return { ifNoneMatch, ifMatch: form };
  }
  return { ifNoneMatch, ifMatch: 'none' };
}

interface Trial {
  readonly connection: S3Connection;
  /** For what is left to do after the signal has ended the trial. */
  readonly lastWords: S3Connection;
  readonly key: string;
  readonly signal: AbortSignal;
}

/** Tries what a store does with uploads. Each trial has its own upload, because a refusal may end it. */
class UploadTrial {
  readonly #trial: Trial;
  #checksums = true;

  constructor(trial: Trial) {
    this.#trial = trial;
  }

  async run(form: TagForm): Promise<Omit<StoreTraits, keyof PutTraits | 'parts'>> {
    const created = await this.#create();
    const again =
      created === 'done' ? await this.#outcome({ IfNoneMatch: '*' }) : ('unknown' as const);
    const { connection, key } = this.#trial;
    const tag = (await headObject(connection, key))?.ETag;
    const wrong = await this.#outcome({ IfMatch: tagInForm(randomTag(), form) });
    const right =
      tag && wrong === 'refused'
        ? await this.#outcome({ IfMatch: tagInForm(tag, form) })
        : ('unknown' as const);
    return {
      completeIfNoneMatch: again === 'refused',
      completeIfMatch: right === 'done',
      checksums: this.#checksums,
    };
  }

  /** Creates the object, if possible on the condition that there is none. */
  async #create(): Promise<Outcome> {
    const created = await this.#outcome({ IfNoneMatch: '*' });
    if (created === 'done') return created;
    if (this.#checksums && (await this.#outcome(null)) === 'done') return created;
    // Perhaps the store refuses the checksums.
    this.#checksums = false;
    const plain = await this.#outcome({ IfNoneMatch: '*' });
    if (plain !== 'done') await this.#complete(null);
    return plain;
  }

  #outcome(condition: PutCondition): Promise<Outcome> {
    return outcomeOf(() => this.#complete(condition));
  }

  async #complete(condition: PutCondition): Promise<void> {
    const { key, lastWords, signal } = this.#trial;
    const traits = this.#checksums ? this.#trial.connection.traits : withoutTraits;
    const connection = { ...this.#trial.connection, traits };
    const options = { key, contentType: 'text/plain' };
    const { upload, checksums } = await createUpload(connection, options, signal);
    this.#checksums &&= checksums;
    try {
      await this.#sendAndComplete(upload, checksums, condition);
    } catch (error) {
      if (!signal.aborted) await abortUpload(connection, upload);
      else await abortUpload(lastWords, upload, AbortSignal.timeout(cleanupMs));
      throw error;
    }
  }

  async #sendAndComplete(
    upload: UploadRef,
    checksums: boolean,
    condition: PutCondition,
  ): Promise<void> {
    const { connection, signal } = this.#trial;
    const body = Buffer.from(`Sluice tests this store: ${upload.uploadId}\n`);
    const digest = openDigest(connection, checksums);
    digest.update(body);
    const part = await uploadPart(connection, upload, 1, body, digest.end(), signal);
    try {
      await sendTo(connection, completion(upload, [part], condition), signal);
    } catch (error) {
      // The answer of an earlier try may have been lost.
      const head = isRefusal(error) ? await headObject(connection, upload.key) : null;
      if (head === null || !isOwnObject(upload, head.Metadata)) throw error;
    }
    const bytes = (await headObject(connection, upload.key))?.ContentLength;
    if (bytes !== part.bytes) {
      const detail = `${bytes} bytes of ${part.bytes} are kept`;
      throw new SluiceError('destination.invalid_config', detail);
    }
  }
}

const withoutTraits: StoreTraits = {
  ifNoneMatch: false,
  ifMatch: 'none',
  completeIfNoneMatch: false,
  completeIfMatch: false,
  checksums: false,
  parts: usualParts,
};

function randomTag(): string {
  return randomBytes(16).toString('hex');
}

/** `unknown`: the store does not support the request. */
type Outcome = 'done' | 'refused' | 'unknown';

/** A collision (409) says nothing about the condition, and is transient. */
const maxCollisions = 3;

async function outcomeOf(write: () => Promise<unknown>): Promise<Outcome> {
  for (let collisions = 0; ; collisions += 1) {
    try {
      await write();
      return 'done';
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error;
      if (isNotImplemented(error)) return 'unknown';
      const status = error.cause instanceof StoreError ? error.cause.status : undefined;
      if (error.code === 'destination.conflict') {
        if (status === 412) return 'refused';
        if (status !== 409) return 'unknown';
        if (collisions < maxCollisions) continue;
      }
      if (isOfEveryRequest(error)) throw error;
      return 'unknown';
    }
  }
}

/** Errors that would end any request at this moment, so they say nothing about the trial. */
const ofEveryRequest: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  ...(['destination.throttled', 'destination.stalled'] as const),
  ...(['destination.invalid_credentials', 'destination.expired_credentials'] as const),
  ...(['destination.wrong_region', 'destination.kms_denied'] as const),
  'destination.endpoint_forbidden',
]);

/** Answers of a proxy or of a store that is starting. */
const outages: ReadonlySet<number> = new Set([408, 502, 503, 504]);

function isOfEveryRequest(error: unknown): boolean {
  if (!(error instanceof SluiceError) || !(error.cause instanceof StoreError)) return true;
  const { status } = error.cause;
  return status === undefined || outages.has(status) || ofEveryRequest.has(error.code);
}

function isRefusal(error: unknown): boolean {
  if (!(error instanceof SluiceError)) return false;
  return error.code === 'destination.conflict' || error.code === 'destination.upload_lost';
}

/** Far above the time of a probe, also if the clock of the store is wrong by hours. */
const oldMs = 24 * 3_600_000;

/** Markers that are looked at: each costs a request. */
const mostMarkers = 20;

/** Removes old markers that no note names: those of a test, or of a commit without a run. May fail. */
async function removeOldMarkers(connection: S3Connection, folder: string): Promise<void> {
  try {
    const prefix = `${folder === '' ? '' : `${folder}/`}${markerPrefix}`;
    let looked = 0;
    for await (const { key } of listObjects(connection, prefix)) {
      looked += 1;
      if (looked > mostMarkers) return;
      const madeAt = (await headObject(connection, key))?.modifiedAt ?? null;
      if (madeAt !== null && systemClock.now() - madeAt > oldMs)
        await deleteObjects(connection, [key]);
    }
  } catch {
    // The credentials may not list, read or delete: `sluice verify` names what is left.
  }
}
