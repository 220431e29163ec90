import type { PutLease, UploadJournal } from '../destinations/destination.ts';
import type { Element } from '../../foundation/domain/element.ts';
import type { ExportMode } from '../../foundation/domain/export-settings.ts';
import type { KeyNames } from '../../foundation/domain/file-name.ts';
import type { OnRejected } from '../../foundation/domain/file-settings.ts';
import type { FormatSettings } from '../../foundation/domain/format-settings.ts';
import type { ErasedValue } from '../../foundation/domain/erased-value.ts';
import type { Recipe, RecipeStep, StepCount } from '../../foundation/domain/recipe.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import type { RunStep } from '../../foundation/domain/run-step.ts';
import type { RunPurpose } from '../../foundation/domain/run.ts';
import type { Sign } from '../../foundation/domain/signature.ts';
import type { TableField } from '../../foundation/domain/table-field.ts';
import type { DataInterval, Instant, Timestamp } from '../../foundation/domain/time.ts';
import type { FileEncoder, FormatOptions } from '../encoders/encoder.ts';
import type { SequenceState } from '../changes/plan-element.ts';
import type { Settlement, SourceRequest } from '../sources/source.ts';
import type { FieldToJson } from '../transforms/block-row.ts';
import type { StepDefinition } from '../transforms/own-steps.ts';
import type { Manifest, ManifestFile } from './manifest.ts';
import type { PartitionLimits } from './partitioned-rows.ts';
import type { ReadRows, WithoutRows } from './read-back.ts';
import type { ExportTable } from './table-format.ts';

/** Rules that turn rows into bytes. */
export interface Encoding {
  readonly format: string;
  readonly compression: string | null;
  readonly settings: FormatSettings;
  /** With the compression's suffix: `jsonl.gz`. */
  readonly extension: string;
  readonly contentType: string;
  /** @param options `maxBytes` of a file, if the settings limit the bytes that land */
  open(
    columns: readonly Column[],
    options?: Pick<FormatOptions, 'maxBytes' | 'origin'>,
  ): FileEncoder;
  /** The columns of a table of such files; empty if the format can be none's. */
  tableFields?(columns: readonly Column[]): readonly TableField[];
  /** True if `columns` may have some of type `numeric`. */
  readonly takesNumerics: boolean;
  /** Plain JSON Lines, for rows that the format cannot represent. */
  openJsonLines(columns: readonly Column[]): FileEncoder;
  /** The JSON of single fields, as in JSON Lines. */
  toJson(column: Column): FieldToJson;
}

export interface IntervalJob {
  /** The result of a wait before the attempt; null or missing: the attempt waits itself. */
  readonly settlement?: Settlement | null;
  readonly exportId: string;
  readonly runId: string;
  readonly attempt: number;
  /** True if few rows are expected; missing: not known. */
  readonly isSmall?: boolean;
  readonly purpose: RunPurpose;
  readonly mode: ExportMode;
  /** Of mode changes: what is known of its elements; null or missing: another mode. */
  readonly sequence?: SequenceState | null;
  /** True if delivered rows may go that the new files lack: a person asked for it. */
  readonly dropsMissing: boolean;
  /** True if the export was deleted: only what is current already may be recorded; missing: no. */
  readonly isDeleted?: boolean;
  readonly interval: DataInterval;
  readonly request: SourceRequest;
  /** The transformation chain that the run pinned; null if it has no step. */
  readonly chain: PinnedChain | null;
  /** The keys of the interval's objects are made of these. */
  readonly names: KeyNames;
  readonly encoding: Encoding;
  /** Reads delivered files. */
  readonly readRows: ReadRows;
  /** Makes delivered files again without some of their rows. */
  readonly withoutRows: WithoutRows;
  /** The rows to remove from the current files, instead of all else; null or missing: none. */
  readonly erased?: ErasedValue | null;
  /** True if the export keeps the snapshot that was to be removed, by now; missing: no. */
  readonly isKept?: boolean;
  /** A file ends once it has this many bytes; null: one file. */
  readonly maxFileBytes: number | null;
  /** Columns, or date parts of columns, whose values are the folders of the files; empty: no folders. */
  readonly partitionBy: readonly string[];
  /** Absent: the usual ones. */
  readonly partitionLimits?: PartitionLimits;
  readonly writesManifest: boolean;
  /** The table that the files belong to; null or missing: none. */
  readonly table?: ExportTable | null;
  /** The effect of rejected rows on the run. */
  readonly onRejected: OnRejected;
  /** The generation of this attempt; no other attempt ever has it. */
  readonly generation: number;
  /** The era of our database that the commit belongs to. */
  readonly era: string;
  /** Signs the manifest with the installation's key of this moment. */
  readonly sign: Sign;
  /** The interval's current receipt at this destination; null before the first commit. */
  readonly current: CurrentReceipt | null;
  /**
   * Manifests of the interval at prefixes that the export has left, at its present place: after the commit tombstones
   * replace them.
   */
  readonly formerManifests: readonly string[];
  /** The last known intent of an earlier attempt of this run. */
  readonly intent: CommitIntent | null;
  /**
   * True if a commit of the interval was begun and never confirmed: its worker may wake up and put its
   * manifest, unless another commit comes first.
   */
  readonly mayBeOvertaken: boolean;
  /**
   * MD5 digests of the manifests whose commits were begun since the receipt, by any run: each may be the
   * one at the key.
   */
  readonly begunManifests: readonly string[];
}

/** A transformation chain as a run uses it. */
export interface PinnedChain {
  readonly steps: readonly StepDefinition[];
  /** The steps as the recipe stores them. */
  readonly recipe: readonly RecipeStep[];
}

/** Our record of the interval's current files. */
export interface CurrentReceipt {
  readonly generation: number;
  readonly era: string;
  /** Null if the commit wrote none. */
  readonly manifestKey: string | null;
  readonly manifestEtag: string | null;
  readonly manifestSha256: string | null;
  readonly files: readonly CommittedFile[];
  readonly rejectedFiles: readonly CommittedFile[];
  /** The settings that made the files. */
  readonly recipe: Recipe;
  /** When its snapshot was taken. Null or missing: it is none, or that is not known. */
  readonly snapshotAt?: Timestamp | null;
  /** Of mode changes. */
  readonly element?: Element | null;
  /** The digest of the keys in the files, with those of rejected rows; null if it is not known. */
  readonly deliveredDigest: string | null;
  /** Facts of the last look at the source. */
  readonly proof: ReceiptProof;
}

/** A recorded element, with what is needed to read its files. */
export interface RecordedFiles extends Pick<CurrentReceipt, 'generation' | 'files' | 'recipe'> {
  readonly element: Pick<Element, 'number' | 'follows'>;
}

/** The rows that a source had, by their keys. */
export interface ReceiptProof {
  readonly snapshot: string;
  readonly digest: string | null;
  readonly count: number;
  readonly settled: boolean;
  readonly pending: readonly string[];
}

/** A file that a commit made readable. */
export interface CommittedFile extends ManifestFile {
  /** Null if the store returned none, or if it was not kept. */
  readonly etag?: string | null;
}

/** An object that may exist though the current receipt does not name it. */
export interface LeftoverFile {
  readonly key: string;
  readonly generation: number;
  readonly manifestKey: string | null;
  /** The tag that the store gave it; null if no receipt ever named it, or if the tag was not kept. */
  readonly etag: string | null;
  /** True if it was made, or replaced, within a day. */
  readonly isRecent: boolean;
}

export interface Progress {
  /** Rows of the interval in the snapshot; null until it is known. */
  readonly totalRows: number | null;
  readonly rows: number;
  readonly bytes: number;
  readonly files: number;
}

/** A manifest, or the metadata of a file, says this about its commit. */
export type SeenCommit = Pick<Manifest, 'run_id' | 'generation' | 'era' | 'moved_to'>;

/** The pipeline reports and asks through these during a run. */
export interface RunPorts {
  readonly journal: UploadJournal;
  progressed(progress: Progress): Promise<void>;
  /**
   * Checks the fence once before anything becomes readable, and stores the intent.
   *
   * @throws SluiceError `run.lease_lost` or `run.cancelled`
   */
  confirmCommit(intent: CommitIntent): Promise<void>;
  /**
   * Checks the fence again, right before an unconditional write.
   *
   * @throws SluiceError `run.lease_lost`
   */
  confirmLease(): Promise<void>;
  /** For what makes a commit current: nothing of it is sent once the lease is over. */
  readonly lease: PutLease;
  /**
   * Raises the attempt's generation above `floor`, because the bucket is ahead of our database.
   *
   * @throws SluiceError `run.lease_lost`
   */
  raiseGeneration(floor: number): Promise<number>;
  /** The recorded elements of the export from its newest base on, in their order. */
  readElements(): AsyncIterable<RecordedFiles>;
  /** The time of our database. Only exports with a table ask for it. */
  readNow(): Promise<Instant>;
  log(level: 'DEBUG' | 'INFO' | 'WARNING', message: string): void;
  /** Logs a line that an own plugin writes. These lines are bounded for each organization. */
  logOfPlugin(level: 'DEBUG' | 'INFO' | 'WARNING', message: string): void;
  /**
   * Says whether a run of our database's history has begun to put this manifest, or this file, at the key. If not, a copy of the database may be
   * in use, or ours was restored and no operator has accepted that yet.
   *
   * @param putAt by the clock of the store, if it is known: who accepts something does not accept what comes later
   */
  knowsCommit(commit: SeenCommit, key: string, putAt?: Instant | null): Promise<boolean>;
  /** The store refused to put objects at these keys, and what is there is not ours: they are no leftovers. */
  withdraw(keys: readonly string[]): Promise<void>;
  /** What the attempt is doing from now on, for people who look. */
  at(step: RunStep): void;
  /** Measures a step of the attempt, if traces are on. */
  step<T>(name: 'source' | 'write' | 'commit', work: () => Promise<T>): Promise<T>;
}

/** The content that a commit is about to make current. Plain JSON. */
export interface CommitIntent {
  readonly generation: number;
  readonly era: string;
  /** Rows of the interval in the snapshot. */
  readonly totalRows: number;
  /** Rows in the files. */
  readonly rows: number;
  readonly rejectedRows: number;
  /** Rows that the chain dropped. */
  readonly droppedRows: number;
  /** The counts of the rows in each step; missing without a chain. */
  readonly steps?: readonly StepCount[];
  readonly bytes: number;
  /** All files of the interval. */
  readonly files: readonly CommittedFile[];
  readonly rejectedFiles: readonly CommittedFile[];
  /** Null if the export writes no manifest. */
  readonly manifestKey: string | null;
  readonly recipe: Recipe;
  /** Of mode snapshot: when that was taken, by the clock of the source. Null or missing: it is not known, or is none. */
  readonly snapshotAt?: Timestamp | null;
  /** Of mode changes. */
  readonly element?: Element | null;
  readonly snapshot: string;
  readonly settled: boolean;
  /** Transactions that may still add rows to the interval, if it is not settled. */
  readonly pending: readonly string[];
  /** Digest of the set of all keys that the source has for the interval; null if there is none. */
  readonly keyDigest: string | null;
  /** The number of these rows. A supplement has fewer in `totalRows`: the late ones. */
  readonly keyCount: number;
  /** Digest of the keys in all files of the interval, rejected rows included; null if it is not known. */
  readonly deliveredDigest: string | null;
  /** The number of files that the run itself has made. */
  readonly madeFiles: number;
  /** MD5 digests of this commit's manifest and of those that may be at the key; missing without a manifest. */
  readonly begunManifests?: readonly string[];
}

/** The current content of the destination when the pipeline has ended. */
export interface IntervalResult extends Omit<CommitIntent, 'files' | 'rejectedFiles'> {
  readonly files: readonly CommittedFile[];
  readonly rejectedFiles: readonly CommittedFile[];
  readonly manifestEtag: string | null;
  /** Of the manifest's bytes; null without a manifest. */
  readonly manifestSha256: string | null;
}
