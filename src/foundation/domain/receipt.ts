import type { Element } from './element.ts';
import type { ExportMode } from './export-settings.ts';
import type { Recipe, StepCount } from './recipe.ts';
import type { RunPurpose } from './run.ts';
import type { DataInterval, Timestamp } from './time.ts';

export interface ManifestFile {
  readonly key: string;
  /** The generation of the commit that wrote it. A reader does not know files of a later one than it has seen. */
  readonly generation: number;
  readonly rows: number;
  readonly bytes: number;
  /** The digest of the object's bytes, lower-case hexadecimal. */
  readonly sha256: string;
}

/** A file that a commit made readable. */
export interface CommittedFile extends ManifestFile {
  /** The tag that the store gave it; absent or null if it gave none, or if it was not kept. */
  readonly etag?: string | null;
}

export interface Progress {
  /** Rows of the interval in the snapshot; null until it is known. */
  readonly totalRows: number | null;
  readonly rows: number;
  readonly bytes: number;
  readonly files: number;
}

/** The result of a run: rows that it has read, and files that it has made. */
export interface RunResult {
  /** Rows of the interval in the snapshot. */
  readonly totalRows: number;
  readonly rows: number;
  readonly rejectedRows: number;
  readonly droppedRows: number;
  /** The counts of the rows in each step; missing without a chain. */
  readonly steps?: readonly StepCount[];
  readonly bytes: number;
  /** The number of files that the run itself has made. */
  readonly madeFiles: number;
  readonly snapshot: string;
  readonly settled: boolean;
  /** Transactions that may still add rows to the interval, if it is not settled. */
  readonly pending: readonly string[];
  /** Digest of the set of all keys that the source has for the interval; null if there is none. */
  readonly keyDigest: string | null;
  /** The number of these rows. A supplement has fewer in `totalRows`: the late ones. */
  readonly keyCount: number;
}

export interface CommittedFiles {
  readonly generation: number;
  /** The era of the database that commits it. */
  readonly era: string;
  /** Null if the export writes no manifest. */
  readonly manifestKey: string | null;
  readonly files: readonly CommittedFile[];
  readonly rejectedFiles: readonly CommittedFile[];
  readonly recipe: Recipe;
  /** When the snapshot in the files was taken, by the clock of the source. Null or missing: they have none, or that is not known. */
  readonly snapshotAt?: Timestamp | null;
  /** Of mode changes; missing: null. */
  readonly element?: Element | null;
  /** Digest of the keys in all files of the interval, rejected rows included; null if it is not known. */
  readonly deliveredDigest: string | null;
}

/** The content that a commit is about to make current. Plain JSON. */
export interface CommitIntent extends CommittedFiles, RunResult {
  /** MD5 digests of this commit's manifest and of those that may be at the key; missing without a manifest. */
  readonly begunManifests?: readonly string[];
}

/** The objects that a commit makes readable. */
export interface CommitNames {
  readonly generation: number;
  readonly manifestKey: string | null;
  readonly files: readonly { readonly key: string }[];
  readonly rejectedFiles: readonly { readonly key: string }[];
}

/** Every key that a commit names, including its manifest's. */
export function namedBy(commit: Omit<CommitNames, 'generation'>): readonly string[] {
  const files = [...commit.files, ...commit.rejectedFiles].map(({ key }) => key);
  return commit.manifestKey === null ? files : [...files, commit.manifestKey];
}

export interface AttemptFacts {
  readonly exportId: string;
  readonly runId: string;
  readonly attempt: number;
  readonly purpose: RunPurpose;
  readonly mode: ExportMode;
  readonly interval: DataInterval;
  /** True if delivered rows may go that the new files lack: a person asked for it. */
  readonly dropsMissing: boolean;
  /** True if the export was deleted while an attempt committed: only what is current already may be recorded. Missing: no. */
  readonly isDeleted?: boolean;
  /** The era of our database that a commit belongs to. */
  readonly era: string;
  /** A commit was begun and never confirmed: its worker may wake up and put its manifest, unless another comes first. */
  readonly mayBeOvertaken: boolean;
  /** MD5 digests of the manifests whose commits were begun since the receipt, by any run: each may be the one at the key. */
  readonly begunManifests: readonly string[];
}

/** The manifest as the store has it. */
interface StoredManifest {
  readonly manifestEtag: string | null;
  /** Of the manifest's bytes; null without a manifest. */
  readonly manifestSha256: string | null;
}

export interface IntervalResult extends CommitIntent, StoredManifest {}

/** Our record of the interval's current files. */
export interface CurrentReceipt extends CommittedFiles, StoredManifest {
  /** Facts of the last look at the source. */
  readonly proof: ReceiptProof;
}

/** The result of an attempt that leaves an interval as it is. */
export function unchanged({ proof, ...files }: CurrentReceipt): IntervalResult {
  const { digest: keyDigest, count: keyCount, ...look } = proof;
  const nothing = {
    totalRows: 0,
    rows: 0,
    rejectedRows: 0,
    droppedRows: 0,
    bytes: 0,
    madeFiles: 0,
  };
  return { ...files, ...look, keyDigest, keyCount, ...nothing };
}

/** A recorded element, with what is needed to read its files. */
export interface RecordedFiles extends Pick<CurrentReceipt, 'generation' | 'files' | 'recipe'> {
  readonly element: Pick<Element, 'number' | 'follows'>;
}

/** The rows that a source had, by their keys. */
export interface ReceiptProof extends Pick<RunResult, 'snapshot' | 'settled' | 'pending'> {
  /** Null if only the count was kept. */
  readonly digest: string | null;
  readonly count: number;
}

/** An object that may exist though the current receipt does not name it. */
export interface LeftoverFile {
  readonly key: string;
  readonly generation: number;
  /** The manifest of its commit; null if the export wrote none. */
  readonly manifestKey: string | null;
  /** The tag that the store gave it; null if no receipt ever named it, or if the tag was not kept. */
  readonly etag: string | null;
  /** True if it was made, or replaced, within a day. */
  readonly isRecent: boolean;
}
