import { buffer } from 'node:stream/consumers';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { parseForeignJson } from '../../foundation/domain/foreign-json.ts';
import { fencesManifests } from '../../foundation/domain/store-traits.ts';
import { toTimestamp } from '../../foundation/domain/time.ts';
import type { Destination } from '../destinations/destination.ts';
import type { IntervalJob, RunPorts } from './interval-job.ts';

/**
 * One object of an export that names the manifest of its newest interval. It never goes back to an earlier one: each put is
 * conditional on what was read before, so runs of several intervals may end at the same moment.
 */
export interface LatestManifest {
  readonly batch_export_id: string;
  readonly data_interval_start: string;
  readonly data_interval_end: string;
  readonly manifest: string;
}

/** Ours has a few hundred bytes. */
const maxBytes = 8_192;
const bounds = { values: 20, names: 20, depth: 2 } as const;

interface Found {
  readonly latest: LatestManifest | null;
  readonly etag: string | null;
}

/**
 * Before rows are read.
 *
 * @throws SluiceError `destination.invalid_config` if the store cannot keep it from going back; `destination.key_taken` if
 *   the object is not this export's; `destination.access_denied`
 */
export async function checkLatest(
  destination: Destination,
  job: IntervalJob,
  signal: AbortSignal,
): Promise<void> {
  const { latestKey, exportId } = job;
  if (latestKey === null) return;
  const { traits } = destination;
  if (traits === null || !fencesManifests(traits)) {
    const why =
      traits === null
        ? 'it could not be probed: allow the credentials to write and delete objects below the prefix'
        : 'this one does not. Set latest_manifest to false';
    const detail = `latest_manifest needs a store that supports conditional writes (If-None-Match and If-Match on PutObject), and ${why}`;
    throw new SluiceError('destination.invalid_config', detail);
  }
  await readLatest(destination, latestKey, exportId, signal);
}

async function readLatest(
  destination: Destination,
  key: string,
  exportId: string,
  signal: AbortSignal,
): Promise<Found> {
  const found = await destination.readFile(key, { maxBytes, signal }).catch(nameRight);
  if (!found) return { latest: null, etag: null };
  const latest = await decode(await buffer(found.body));
  if (latest?.batch_export_id !== exportId) throw new SluiceError('destination.key_taken', key);
  return { latest, etag: found.etag };
}

function nameRight(error: unknown): never {
  if (error instanceof SluiceError && error.code === 'destination.access_denied') {
    const detail =
      'latest_manifest needs permission to read what is below the prefix (s3:GetObject)';
    throw new SluiceError('destination.access_denied', detail, error);
  }
  if (error instanceof SluiceError && error.code === 'destination.invalid_answer') {
    throw new SluiceError('destination.key_taken', 'latest_manifest.json', error);
  }
  throw error;
}

/** @returns null if there is none; `other` if it is not one of this export */
export async function findLatest(
  destination: Destination,
  key: string,
  exportId: string,
  signal: AbortSignal,
): Promise<LatestManifest | 'other' | null> {
  try {
    return (await readLatest(destination, key, exportId, signal)).latest;
  } catch (error) {
    if (error instanceof SluiceError && error.code === 'destination.key_taken') return 'other';
    throw error;
  }
}

async function decode(bytes: Buffer): Promise<LatestManifest | null> {
  try {
    const value = (await parseForeignJson(bytes, bounds)) as Partial<LatestManifest> | null;
    const { batch_export_id: id, data_interval_start: start, data_interval_end: end } = value ?? {};
    const isWhole = [id, start, end, value?.manifest].every((part) => typeof part === 'string');
    return isWhole ? (value as LatestManifest) : null;
  } catch {
    return null;
  }
}

/** Each lost race is another interval's success; a person's backfills and live runs are far fewer at once. */
const mostTries = 50;

/** Names the interval's manifest, unless a later interval's is named already. */
export async function raiseLatest(
  destination: Destination,
  job: IntervalJob,
  manifestKey: string | null,
  ports: RunPorts,
  signal: AbortSignal,
): Promise<void> {
  const { latestKey, exportId, interval } = job;
  if (latestKey === null || manifestKey === null) return;
  const latest: LatestManifest = {
    batch_export_id: exportId,
    data_interval_start: toTimestamp(interval.start),
    data_interval_end: toTimestamp(interval.end),
    manifest: manifestKey,
  };
  const body = Buffer.from(`${JSON.stringify(latest, null, 2)}\n`);
  for (let tried = 1; ; tried += 1) {
    const found = await readLatest(destination, latestKey, exportId, signal);
    if (found.latest && !replaces(latest, found.latest)) return;
    try {
      const options = { confirm: refuse, lease: ports.lease, signal };
      await destination.commitManifest(latestKey, body, found.etag, options);
      return;
    } catch (error) {
      const isConflict = error instanceof SluiceError && error.code === 'destination.conflict';
      if (!isConflict || tried === mostTries) throw error;
    }
  }
}

/** A put without a condition could replace what a later interval has put. */
async function refuse(): Promise<void> {
  const detail =
    'latest_manifest needs a store that supports conditional writes, and this one does not';
  throw new SluiceError('destination.invalid_config', detail);
}

/** Timestamps of the years 0 to 9999 sort as texts. */
function replaces(ours: LatestManifest, there: LatestManifest): boolean {
  const when = (one: LatestManifest) => `${one.data_interval_end} ${one.data_interval_start}`;
  if (when(ours) !== when(there)) return when(ours) > when(there);
  return ours.manifest !== there.manifest;
}
