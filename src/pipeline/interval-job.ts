import type { UploadJournal, UploadProgress } from '../destinations/destination.ts';
import type { Recipe } from '../domain/recipe.ts';
import type { Column } from '../domain/row-block.ts';
import type { DataInterval } from '../domain/time.ts';
import type { FileEncoder } from '../encoders/encoder.ts';
import type { SourceRequest } from '../sources/source.ts';
import type { ManifestFile } from './manifest.ts';

/** How rows become bytes. */
export interface Encoding {
  readonly format: string;
  readonly compression: string | null;
  /** With the compression's suffix: `jsonl.gz`. */
  readonly extension: string;
  readonly contentType: string;
  open(columns: readonly Column[]): FileEncoder;
  /** Plain JSON Lines, for rows that the format cannot hold. */
  openJsonLines(columns: readonly Column[]): FileEncoder;
}

/** One interval to be exported by one attempt of one run. */
export interface IntervalJob {
  readonly exportId: string;
  readonly runId: string;
  readonly attempt: number;
  readonly interval: DataInterval;
  readonly request: SourceRequest;
  /** The rendered prefix of the object keys; `''` for none. */
  readonly prefix: string;
  readonly encoding: Encoding;
  /** A file is ended once it holds so many bytes; null: one file. */
  readonly maxFileBytes: number | null;
  readonly writesManifest: boolean;
  /** The manifest in force as we recorded it, which this run replaces; null for an interval's first. */
  readonly inForce: {
    /** Null where it wrote none. */
    readonly manifestKey: string | null;
    readonly manifestEtag: string | null;
    readonly fileKeys: readonly string[];
  } | null;
  /** What an earlier attempt was about to put in force when it was last heard of. */
  readonly intent: CommitIntent | null;
  /** Uploads that earlier attempts left behind; what of them is still right is not sent again. */
  readonly leftovers: readonly UploadProgress[];
}

export interface Progress {
  /** Rows of the interval in the snapshot. */
  readonly totalRows: number;
  readonly rows: number;
  readonly bytes: number;
  readonly files: number;
}

/** What the pipeline tells and asks while it works. */
export interface RunPorts {
  readonly journal: UploadJournal;
  /**
   * The attempt has settled and opens its snapshot: from here on its death counts against the run.
   *
   * @throws SluiceError `run.lease_lost`
   */
  readingBegins(): Promise<void>;
  progressed(progress: Progress): Promise<void>;
  /**
   * The fence, asked once before anything becomes readable; the intent is durable then.
   *
   * @throws SluiceError `run.lease_lost` or `run.cancelled`
   */
  confirmCommit(intent: CommitIntent): Promise<void>;
  log(level: 'DEBUG' | 'INFO' | 'WARNING', message: string): void;
}

/** What a commit is about to put in force. Plain JSON. */
export interface CommitIntent {
  /** Rows of the interval in the snapshot. */
  readonly totalRows: number;
  /** Rows in the files. */
  readonly rows: number;
  readonly rejectedRows: number;
  readonly bytes: number;
  readonly files: readonly ManifestFile[];
  readonly rejectedFiles: readonly ManifestFile[];
  /** Null where the export writes no manifest. */
  readonly manifestKey: string | null;
  readonly recipe: Recipe;
  /** Keys that earlier attempts made readable, or were about to, and this one does not have. */
  readonly superseded: readonly string[];
  readonly snapshot: string;
  readonly settled: boolean;
  /** Transactions that may still add rows to the interval, where it is not settled. */
  readonly pending: readonly string[];
}

/** What is in force at the destination once the pipeline is done. */
export interface IntervalResult extends CommitIntent {
  readonly manifestEtag: string | null;
}
