import { randomUUID } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import type { Destination } from '../../rows/destinations/destination.ts';
import { SluiceError, toSluiceError } from '../../foundation/domain/errors.ts';
import { readFileSettings } from '../../foundation/domain/file-settings.ts';
import { literalFolder } from '../../foundation/domain/key-template.ts';
import { markerPrefix } from '../../foundation/domain/object-keys.ts';
import {
  findTeamsWithUncomparedPlaces,
  recordComparison,
  takeUncomparedPlace,
  type UncomparedPlace,
} from '../../state/store/files/former-destinations.ts';
import { appendLogEntries } from '../../state/store/exports/log-entries.ts';
import { collectByTeam, type SweepOptions } from './collect-uploads.ts';

/**
 * Finds out whether a place that an export has left is its present one by another address: another host name, another
 * scheme, the endpoint of a VPC. Then the export's earlier files are at its present place, and an interval that runs again
 * must replace them. A marker object that is put at the one and found at the other proves it; texts prove nothing.
 */
export async function comparePlaces(options: SweepOptions): Promise<void> {
  const { db } = options.context;
  await collectByTeam(options, {
    kind: 'compare_places',
    findTeams: (limit) => findTeamsWithUncomparedPlaces(db, limit),
    take: (teamId) => takeUncomparedPlace(db, teamId),
    serve: (place, signal) => compareAndRecord(options, place, signal),
    notTried: async () => {},
  });
}

async function compareAndRecord(
  options: SweepOptions,
  place: UncomparedPlace,
  signal: AbortSignal,
): Promise<void> {
  const { db } = options.context;
  const isSame = await compare(options, place, signal).catch((error: unknown) => {
    options.onSweepError(error);
    return error;
  });
  if (typeof isSame === 'boolean') {
    await db.transaction((tx) => recordComparison(tx, place, isSame));
  } else if (place.isLastTry) {
    await giveUp(options, place, isSame);
  }
}

/** @throws if it cannot be found out now */
async function compare(
  { connectors }: SweepOptions,
  { exportId, externalId, destination, formerConfig, formerSecrets }: UncomparedPlace,
  signal: AbortSignal,
): Promise<boolean> {
  const { type, config, secrets } = destination;
  if (!connectors.keepsFiles(type)) return false;
  const open = (stored: typeof destination) =>
    connectors.openDestination({ exportId, externalId, destination: stored });
  const folder = literalFolder(readFileSettings(config).prefix);
  const key = `${folder === '' ? '' : `${folder}/`}${markerPrefix}place-${exportId}`;
  const here = open(destination);
  try {
    const marker = Buffer.from(`Sluice compares two places: ${randomUUID()}\n`);
    // A sweep that died may have left one.
    const former = await here.statFile(key, signal);
    await here.commitManifest(key, marker, former?.etag ?? null, { signal });
    try {
      // The former credentials may have been revoked, or be limited to the former prefix.
      const all = [...(formerSecrets ? [formerSecrets] : []), secrets];
      const places = all.map((own) => open({ type, config: formerConfig, secrets: own }));
      return await isThere(places, key, marker, signal);
    } finally {
      await here.deleteFiles([key], signal);
    }
  } finally {
    await here.close();
  }
}

/** Looks with each of several credentials. @throws the error of the last one */
async function isThere(
  places: readonly Destination[],
  key: string,
  marker: Buffer,
  signal: AbortSignal,
): Promise<boolean> {
  let fault = new SluiceError('destination.unavailable', 'no credentials are known');
  try {
    for (const place of places) {
      try {
        const object = await place.readFile(key, { maxBytes: 1_024, signal });
        return object !== null && (await buffer(object.body)).equals(marker);
      } catch (error) {
        fault = toSluiceError(error);
      }
    }
  } finally {
    await Promise.allSettled(places.map((place) => place.close()));
  }
  // The present credentials are right at the present place, and its bucket exists.
  if (provesOther.has(fault.code)) return false;
  throw fault;
}

const provesOther: ReadonlySet<string> = new Set([
  'destination.bucket_not_found',
  'destination.invalid_credentials',
]);

/** From now on they count as two. */
async function giveUp(
  { context: { db } }: SweepOptions,
  place: UncomparedPlace,
  caught: unknown,
): Promise<void> {
  const { teamId, exportId } = place;
  const message =
    'Sluice could not find out whether the former destination of this export is the present one by another address ' +
    `(${toSluiceError(caught).message}). If it is, remove the manifests below the former prefix yourself.`;
  await db.transaction(async (tx) => {
    if (!(await recordComparison(tx, place, false))) return;
    await appendLogEntries(tx, [{ teamId, exportId, runId: null, level: 'WARNING', message }]);
  });
}
