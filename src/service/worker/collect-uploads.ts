import type { Destination, UploadRef } from '../../rows/destinations/destination.ts';
import { toSluiceError } from '../../foundation/domain/errors.ts';
import { keyNames, readKey, usualFileName } from '../../foundation/domain/file-name.ts';
import { type FileSettings, readFileSettings } from '../../foundation/domain/file-settings.ts';
import {
  commonFolder,
  literalFolder,
  renderKeyTemplate,
  topFolders,
} from '../../foundation/domain/key-template.ts';
import { markerPrefix, partitionOfKey } from '../../foundation/domain/object-keys.ts';
import type { Sql } from '../../state/store/database/database.ts';
import { appendLogEntries } from '../../state/store/exports/log-entries.ts';
import type { GuardedWork } from '../../state/store/files/guarded-work.ts';
import { listFormerNames } from '../../state/store/files/former-destinations.ts';
import {
  endLook,
  findEndedRuns,
  findTeamsToLookAt,
  forgetUploadPlace,
  type JudgedUpload,
  judgeUploads,
  maxLooks,
  takeUploadPlace,
  type UploadPlace,
} from '../../state/store/files/upload-places.ts';
import type { WorkGuard } from '../use-cases/work-guard.ts';
import type { ExecutorOptions } from './options.ts';

const batch = 500;

/**
 * Aborts uploads that their attempt could not abort: its process was killed, or the store was unreachable. Each place where
 * uploads are begun is looked at once an hour, by a list of the uploads at the prefix of the export. What the store, or the
 * credentials, cannot list, the bucket's lifecycle rule must remove.
 */
export async function collectUploads(options: SweepOptions): Promise<void> {
  const { db } = options.context;
  await collectByTeam(options, {
    kind: 'abort_uploads',
    findTeams: (limit) => findTeamsToLookAt(db, limit),
    take: (teamId) => takeUploadPlace(db, teamId, teamPatienceMs),
    serve: (place, signal) => look(options, place, signal),
    notTried: (place) => endLook(db, place, 'not tried'),
  });
}

async function look(options: SweepOptions, place: UploadPlace, signal: AbortSignal): Promise<void> {
  const { db } = options.context;
  try {
    const someLeft = await lookAt(options, place, signal);
    await endLook(db, place, someLeft ? 'some left' : 'clean');
  } catch (error) {
    // Then only the bucket's lifecycle rule helps, and `sluice verify` says so.
    const isRefused = error instanceof ListRefused;
    if (!isRefused) options.onSweepError(error);
    await endLook(db, place, 'failed');
    if (place.tries < maxLooks) return;
    await forgetUploadPlace(db, place);
    if (!isRefused) await warn(db, place, error);
  }
}

/** @returns whether an upload is left that may not be aborted yet */
async function lookAt(
  { context: { db }, connectors }: SweepOptions,
  place: UploadPlace,
  signal: AbortSignal,
): Promise<boolean> {
  const { exportId, model, destination: stored } = place;
  const settings = readFileSettings(stored.config);
  const named = [settings, ...(await listFormerNames(db, exportId, usualFileName))];
  const constants = { table: model, batchExportId: exportId };
  const folders = topFolders(named.map(({ prefix }) => commonFolder(prefix, constants)));
  const destination = connectors.openDestination(place);
  let isLeft = false;
  try {
    for (const folder of folders) {
      for await (const some of inBatches(destination.listUploads(slashed(folder), signal))) {
        const judged = await judgeUploads(db, exportId, some.map(describeUpload));
        const ours = judged.filter((upload) => isOf(upload, exportId, model, named));
        const held = new Set(ours.filter(isHeld).map(({ key }) => key));
        const abandoned = new Set(ours.map(({ key }) => key).filter((key) => !held.has(key)));
        isLeft ||= held.size > 0;
        for (const upload of some) {
          if (abandoned.has(upload.key)) await destination.abortUpload(upload, signal);
        }
      }
    }
    await removeMarkers(db, destination, literalFolder(settings.prefix), signal);
    return isLeft;
  } finally {
    await destination.close();
  }
}

type Names = Pick<FileSettings, 'prefix' | 'fileName'>;

/** Says whether an export with these names makes the key for the interval. */
function isOf(
  { key, interval }: Pick<JudgedUpload, 'key' | 'interval'>,
  batchExportId: string,
  table: string,
  named: readonly Names[],
): boolean {
  return named.some(({ prefix, fileName }) => {
    const rendered = renderKeyTemplate(prefix, { interval, table, batchExportId });
    return partitionOfKey(keyNames(rendered, fileName, interval).stem, key) !== null;
  });
}

const isHeld = (upload: JudgedUpload): boolean =>
  !upload.isAbandoned ||
  upload.others.some(({ exportId, model, config }) =>
    isOf(upload, exportId, model, [readFileSettings(config)]),
  );

const slashed = (folder: string): string => (folder === '' ? '' : `${folder}/`);

const describeUpload = ({ key }: UploadRef) => {
  const { start = '', generation = 0 } = readKey(key) ?? {};
  return { key, start, generation };
};

/** The credentials may not list, or the store does not. */
class ListRefused extends Error {}

/** @throws ListRefused */
async function* inBatches<T>(items: AsyncIterable<T>): AsyncGenerator<readonly T[]> {
  let some: T[] = [];
  try {
    for await (const item of items) {
      some.push(item);
      if (some.length < batch) continue;
      yield some;
      some = [];
    }
  } catch (error) {
    const { code } = toSluiceError(error);
    const isRefused = code === 'destination.access_denied' || code === 'destination.invalid_config';
    throw isRefused ? new ListRefused(code, { cause: error }) : error;
  }
  if (some.length > 0) yield some;
}

/** Removes the markers of probes whose process was killed, with their uploads: beside the folder of the files, and in it. */
async function removeMarkers(
  db: Sql,
  destination: Destination,
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  const parent = folder.slice(0, Math.max(0, folder.lastIndexOf('/')));
  for (const at of new Set([folder, parent])) {
    const prefix = `${slashed(at)}${markerPrefix}`;
    const ended = async <T extends { readonly key: string }>(markers: readonly T[]) => {
      const runIds = markers.map(({ key }) => runOf(key.slice(prefix.length)));
      const gone = await findEndedRuns(db, [...new Set(runIds)].filter(Boolean));
      return markers.filter((_, index) => gone.has(runIds[index] ?? ''));
    };
    for await (const some of inBatches(destination.listUploads(prefix, signal))) {
      for (const upload of await ended(some)) await destination.abortUpload(upload, signal);
    }
    for await (const some of inBatches(destination.listFiles(prefix, signal))) {
      await removeAll(destination, await ended(some), signal);
    }
  }
}

/** The run that a marker begins with; '' if it has none. */
const runOf = (marker: string): string =>
  /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\./.exec(marker)?.[1] ?? '';

async function removeAll(
  destination: Destination,
  files: readonly { readonly key: string }[],
  signal: AbortSignal,
): Promise<void> {
  const keys = files.map(({ key }) => key);
  try {
    await destination.deleteFiles(keys, signal);
  } catch (error) {
    // The permission to delete may be missing.
    if (toSluiceError(error).spec.retryable) throw error;
  }
}

async function warn(db: Sql, { teamId, exportId }: UploadPlace, caught: unknown): Promise<void> {
  const message =
    `Sluice stopped looking for unfinished uploads of this export after ${maxLooks} tries ` +
    `(${toSluiceError(caught).message}). A lifecycle rule of the bucket can remove them.`;
  await appendLogEntries(db, [{ teamId, exportId, runId: null, level: 'WARNING', message }]);
}

/** For all that one sweep does for one team, whose store may hinder it. */
const teamPatienceMs = 30_000;

/** Teams per sweep; as many as may be served at a time. */
const teamsPerSweep = 16;

const placesPerTeam = 20;

export interface SweepOptions
  extends Pick<ExecutorOptions, 'context' | 'connectors' | 'onSweepError' | 'stopping'> {
  readonly guard: WorkGuard;
}

/** Work that teams have, piece by piece. */
interface TeamWork<Piece extends { readonly exportId: string }> {
  readonly kind: GuardedWork['kind'];
  findTeams(limit: number): Promise<readonly number[]>;
  /** The next piece of a team; null: there is none left. */
  take(teamId: number): Promise<Piece | null>;
  serve(piece: Piece, signal: AbortSignal): Promise<void>;
  /** Another worker is at the piece, or an operator has to allow it. The team has no turn any more in this sweep. Absent: it goes on. */
  notTried?(piece: Piece): Promise<unknown>;
}

/** Serves all teams with work at the same time: a team whose store hinders it does not delay the others. */
export async function collectByTeam<Piece extends { readonly exportId: string }>(
  { stopping, guard, onSweepError }: SweepOptions,
  { kind, findTeams, take, serve, notTried }: TeamWork<Piece>,
): Promise<void> {
  const serveTeam = async (teamId: number): Promise<void> => {
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(teamPatienceMs)]);
    for (let served = 0; served < placesPerTeam && !signal.aborted; served += 1) {
      const piece = await take(teamId);
      if (!piece) return;
      const what = { kind, id: piece.exportId };
      const end = await guard.do(what, teamPatienceMs, () => serve(piece, signal));
      if (end === 'done' || !notTried) continue;
      await notTried(piece);
      return;
    }
  };
  const teams = await findTeams(teamsPerSweep);
  await Promise.all(teams.map((teamId) => serveTeam(teamId).catch(onSweepError)));
}
