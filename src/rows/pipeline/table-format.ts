import type { StoredDestination } from '../../foundation/domain/batch-export.ts';
import type { ExportMode } from '../../foundation/domain/export-settings.ts';
import type { ColumnMetrics } from '../../foundation/domain/column-metrics.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import type { DataInterval, Instant } from '../../foundation/domain/time.ts';
import type { TableField } from '../../foundation/domain/table-field.ts';
import type { KeyNames } from '../../foundation/domain/file-name.ts';
import type { Destination, PutLease, UploadJournal } from '../destinations/destination.ts';
import type { ManifestFile } from '../../foundation/domain/receipt.ts';

/** The settings that say whether an export has a table, and where. */
export interface TableExport {
  readonly exportId: string;
  readonly model: string;
  readonly destination: Pick<StoredDestination, 'type' | 'config'>;
}

/** A table over the files of an export. An extension implements it; all else knows tables by this interface only. */
export interface TableFormat {
  /** Null if the export's settings ask for no table. */
  tableOf(asked: TableExport): ExportTable | null;
}

/** The table of one export. Its methods throw SluiceError. */
export interface ExportTable {
  /** `a/b`: the table's files are below it. */
  readonly folder: string;
  /** Reads what the table has of the interval. Throws if this export cannot write the table. */
  begin(attempt: TableAttempt): Promise<OpenTable>;
  /** The files of an interval that a snapshot of the table needs, after the snapshots that are due have expired. */
  findHeld(
    destination: Destination,
    commit: TableCommit,
    keys: readonly string[],
    readNow: () => Promise<Instant>,
    signal: AbortSignal,
  ): Promise<ReadonlySet<string>>;
  /** I4: the table has exactly the current files of all intervals, and what its snapshots name is there. @returns the faults */
  verify(
    destination: Destination,
    files: Iterable<Pick<ManifestFile, 'key' | 'rows' | 'bytes'>>,
  ): Promise<readonly string[]>;
  /** The table that is at the place already; null: none. */
  findExisting(destination: Destination, signal: AbortSignal): Promise<FoundTable | null>;
}

export interface TableAttempt {
  readonly destination: Destination;
  readonly job: {
    readonly names: KeyNames;
    readonly interval: DataInterval;
    readonly attempt: number;
    readonly mayBeOvertaken: boolean;
    /** Of mode snapshot the files are all that the table has, in place of those of any interval before. */
    readonly mode: ExportMode;
    readonly encoding: { tableFields?(columns: readonly Column[]): readonly TableField[] };
  };
  readonly ports: {
    readonly lease: PutLease;
    readonly journal: UploadJournal;
    readNow(): Promise<Instant>;
  };
  readonly signal: AbortSignal;
}

export interface TableCommit {
  readonly interval: DataInterval;
  readonly manifestKey: string;
}

export interface FoundTable {
  readonly key: string;
  /** The batch export whose table it is; null: another program's. */
  readonly owner: string | null;
}

export interface OpenTable {
  /** The latest generation among the interval's files in the table; 0 if there is none. */
  readonly generation: number;
  /** Before rows are read. Throws `destination.table_conflict` if the columns do not fit the table. */
  checkColumns(columns: readonly Column[]): void;
  /** Asks the table anew: whether it has exactly these files of the interval. */
  hasFiles(files: readonly ManifestFile[]): Promise<boolean>;
  commit(made: MadeFiles): Promise<void>;
}

/** The files of a commit, which readers of the table see before the manifest names them. */
export interface MadeFiles {
  readonly generation: number;
  readonly files: readonly ManifestFile[];
  readonly metrics: ReadonlyMap<string, readonly ColumnMetrics[]>;
  readonly columns: readonly Column[];
}
