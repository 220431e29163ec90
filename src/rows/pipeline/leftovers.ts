import type { Destination } from '../destinations/destination.ts';
import { SluiceError, toSluiceError } from '../../foundation/domain/errors.ts';
import { partitionOfKey, stemOf } from '../../foundation/domain/object-keys.ts';
import type { Sign } from '../../foundation/domain/signature.ts';
import type { IntervalJob, RunPorts } from './interval-job.ts';
import {
  type AttemptFacts,
  type CommittedFiles,
  type IntervalResult,
  type LeftoverFile,
  namedBy,
} from '../../foundation/domain/receipt.ts';
import { buildManifest, encodeManifest, type ManifestFacts } from './commit.ts';
import { knowsFile } from './in-place.ts';
import {
  type FoundManifest,
  isTombstone,
  type Manifest,
  mayStat,
  readManifestAt,
} from './manifest.ts';

/** The current commit of an interval, whose older generations are removed. */
export interface CurrentCommit
  extends Pick<AttemptFacts, 'exportId' | 'runId' | 'era' | 'interval'>,
    Pick<CommittedFiles, 'generation' | 'manifestKey'> {
  /** The generation of the attempt that made it: above every earlier one's, even if it replaced files in place. */
  readonly attemptGeneration: number;
}

export interface Removal {
  /** Removed, or replaced by a tombstone: these keys are done. */
  readonly removed: readonly string[];
  /** Keys with an object that this export did not write. It stays, and these keys are done too. */
  readonly foreign: readonly string[];
  readonly fault: SluiceError | null;
}

/** A hostile store could name any number of files. Those of our own record are not counted. */
const maxUnknownFiles = 10_000;

/** Bytes that a key may have at S3. */
const maxKeyLength = 1_024;

/** Lists what a commit replaces: files of the current receipt and of the manifest that was in the bucket. */
export function replacedBy(
  job: IntervalJob,
  result: IntervalResult,
  found: FoundManifest,
): readonly LeftoverFile[] {
  const { current } = job;
  const { manifest } = found;
  const named = new Set(namedBy(result));
  const replaced: LeftoverFile[] = [];
  const add = (
    key: string,
    generation: number,
    manifestKey: string | null,
    etag: string | null = null,
  ) => {
    if (!named.has(key)) replaced.push({ key, generation, manifestKey, etag, isRecent: true });
    named.add(key);
  };
  if (current) {
    const { generation, manifestKey } = current;
    const { files, rejectedFiles } = current;
    for (const { key, etag = null } of [...files, ...rejectedFiles]) {
      add(key, generation, manifestKey, etag);
    }
    if (manifestKey !== null) add(manifestKey, generation, manifestKey);
  }
  if (manifest && result.manifestKey !== null) {
    // The bucket may have commits that our database does not know. Only keys of this interval are ours.
    const stem = stemOf(result.manifestKey);
    const files = [...manifest.files, ...manifest.rejected_files];
    for (const { key } of files.slice(0, maxUnknownFiles)) {
      if (partitionOfKey(stem, key) === null || key.length > maxKeyLength) continue;
      add(key, manifest.generation, result.manifestKey);
    }
  }
  return replaced;
}

export interface RemovalRules {
  /** True if files stay for a day: without conditional writes a late manifest could still name them. */
  readonly keepsRecent: boolean;
  /** Says whether a manifest is of our database's history; another's is left alone. */
  readonly knows: RunPorts['knowsCommit'];
  readonly sign: Sign;
  /** Called right before files are removed, and before an unconditional tombstone. @returns those that may go */
  readonly confirm: (keys: readonly string[]) => Promise<readonly string[]>;
}

/**
 * Removes files of older generations, which no worker can commit any more. A tombstone replaces a former manifest at
 * another key first.
 */
export async function removeLeftovers(
  destination: Destination,
  commit: CurrentCommit,
  leftovers: readonly LeftoverFile[],
  rules: RemovalRules,
  signal: AbortSignal,
): Promise<Removal> {
  const { keepsRecent, knows, confirm } = rules;
  const removed: string[] = [];
  const foreign: string[] = [];
  let fault: SluiceError | null = null;
  try {
    const fenced = new Set<string | null>([null, commit.manifestKey]);
    for (const key of new Set(leftovers.map(({ manifestKey }) => manifestKey))) {
      if (key === null || fenced.has(key)) continue;
      if (!(await entomb(destination, commit, key, rules, signal))) continue;
      fenced.add(key);
      removed.push(key);
    }
    const files = leftovers.filter(
      ({ key, generation, manifestKey, isRecent }) =>
        key !== manifestKey &&
        fenced.has(manifestKey) &&
        (generation < commit.generation || commit.manifestKey === null) &&
        !(isRecent && keepsRecent),
    );
    for (let at = 0; at < files.length; at += deletedAtOnce) {
      const some = files.slice(at, at + deletedAtOnce);
      const owners = new Map<string, Owner>();
      for (const file of some) {
        owners.set(file.key, await ownerOf(destination, commit.exportId, file, knows, signal));
      }
      const confirmed = await confirm(some.map(({ key }) => key));
      const ours = confirmed.filter((key) => owners.get(key) === 'ours');
      await destination.deleteFiles(ours, signal);
      removed.push(...ours);
      foreign.push(...confirmed.filter((key) => owners.get(key) === 'foreign'));
      if (ours.length + foreign.length < confirmed.length) fault ??= unreadable;
    }
    return { removed, foreign, fault };
  } catch (error) {
    return { removed, foreign, fault: toSluiceError(error) };
  }
}

const unreadable = new SluiceError(
  'destination.access_denied',
  'the credentials cannot read who wrote the objects (s3:GetObject)',
);

const deletedAtOnce = 50;

type Owner = 'ours' | 'foreign' | 'unknown';

/**
 * Says whether this export wrote the object at a key. A key is noted before the object is put, and the store may have refused
 * it, so the record alone proves nothing. The object must name this export, or be the one that a receipt recorded by its
 * tag. A missing object counts as ours.
 */
async function ownerOf(
  destination: Destination,
  exportId: string,
  { key, etag, manifestKey }: Pick<LeftoverFile, 'key' | 'etag' | 'manifestKey'>,
  knows: RunPorts['knowsCommit'],
  signal: AbortSignal,
): Promise<Owner> {
  const object = await mayStat(destination, key, signal);
  if (object === 'denied') return 'unknown';
  if (object === null) return 'ours';
  const isRecorded = etag !== null && object.etag === etag;
  if (object.owner ? object.owner !== exportId : !isRecorded) return 'foreign';
  // At a key that is replaced in place may be the file of a copy of our database.
  const isKnown = manifestKey !== null || isRecorded || (await knowsFile(object, key, knows));
  return isKnown ? 'ours' : 'foreign';
}

const entombTries = 3;

/** @returns whether no manifest at the key can name files of an older generation any more */
async function entomb(
  destination: Destination,
  commit: CurrentCommit,
  key: string,
  { knows, sign, confirm }: RemovalRules,
  signal: AbortSignal,
): Promise<boolean> {
  // Files that are replaced in place keep their generation, which does not show their age.
  const generation = commit.manifestKey === null ? commit.attemptGeneration : commit.generation;
  const facts = { ...commit, generation, attempt: 0, format: 'none', compression: null };
  const checkLeft = async () => {
    if ((await confirm([key])).length === 0) throw new SluiceError('run.lease_lost');
  };
  const tombstone = encodeManifest(buildTombstone(facts, commit.manifestKey), sign);
  for (let tried = 1; ; tried += 1) {
    const reading = await readManifestAt(destination, key, signal);
    if (reading === 'denied') {
      throw new SluiceError('destination.access_denied', `the credentials cannot read ${key}`);
    }
    if (reading?.manifest) {
      const { manifest } = reading;
      const isOurs = manifest.batch_export_id === commit.exportId;
      if (!isOurs || manifest.generation > generation) return false;
      if (isTombstone(manifest) && manifest.generation === generation) return true;
      if (!(await knows(manifest, key, reading.modifiedAt))) return false;
    } else if (reading !== null) {
      return false;
    }
    try {
      const tag = reading?.etag ?? null;
      const options = { confirm: checkLeft, signal };
      await destination.commitManifest(key, tombstone, tag, options);
      return true;
    } catch (error) {
      // A later run has the interval now. It handles the key at its own end.
      if (error instanceof SluiceError && error.code === 'run.lease_lost') return false;
      const conflict = error instanceof SluiceError && error.code === 'destination.conflict';
      if (!conflict || tried === entombTries) throw error;
    }
  }
}

/**
 * Replaces a manifest whose interval has moved to another key. It is never deleted: a worker that is about
 * to put its first manifest at that key must not find the key free.
 *
 * @param movedTo the key of the new manifest; null if the export writes none any more
 */
export function buildTombstone(
  facts: Omit<ManifestFacts, 'mode' | 'columns' | 'files' | 'rejectedFiles'>,
  movedTo: string | null,
): Manifest {
  const nothing = { mode: 'append', columns: [], files: [], rejectedFiles: [] } as const;
  const empty = buildManifest({ ...facts, ...nothing });
  return { ...empty, moved_to: movedTo };
}
