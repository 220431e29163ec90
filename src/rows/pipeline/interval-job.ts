import type { ErasedValue } from '../../foundation/domain/erased-value.ts';
import type { KeyNames } from '../../foundation/domain/file-name.ts';
import type { FileSettings } from '../../foundation/domain/file-settings.ts';
import type { FormatSettings } from '../../foundation/domain/format-settings.ts';
import type {
  AttemptFacts,
  CommitIntent,
  CurrentReceipt,
  Progress,
  RecordedFiles,
} from '../../foundation/domain/receipt.ts';
import type { RecipeStep } from '../../foundation/domain/recipe.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import type { RunStep } from '../../foundation/domain/run-step.ts';
import type { Sign } from '../../foundation/domain/signature.ts';
import type { TableField } from '../../foundation/domain/table-field.ts';
import type { Instant } from '../../foundation/domain/time.ts';
import type { SequenceState } from '../changes/plan-element.ts';
import type { Destination, PutLease, UploadJournal } from '../destinations/destination.ts';
import type { FileEncoder, FormatOptions } from '../encoders/encoder.ts';
import type { Settlement, Source, SourceRequest } from '../sources/source.ts';
import type { FieldToJson } from '../transforms/block-row.ts';
import type { StepDefinition } from '../transforms/own-steps.ts';
import type { Step } from '../transforms/step.ts';
import type { FoundManifest, Manifest } from './manifest.ts';
import type { PartitionLimits } from './partitioned-rows.ts';
import type { ReadRows, WithoutRows } from './read-back.ts';
import type { SpoolFolder } from './key-spool.ts';
import type { ExportTable, OpenTable } from './table-format.ts';

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
  /** Plain JSON Lines, for rows that the format cannot represent. */
  openJsonLines(columns: readonly Column[]): FileEncoder;
  /** The JSON of single fields, as in JSON Lines. */
  toJson(column: Column): FieldToJson;
}

/** An attempt as its run was claimed, and what it needs besides. */
export interface IntervalJob
  extends AttemptFacts,
    Pick<FileSettings, 'maxFileBytes' | 'partitionBy' | 'writesManifest' | 'onRejected'> {
  /** The result of a wait before the attempt; null or missing: the attempt waits itself. */
  readonly settlement?: Settlement | null;
  /** True if few rows are expected; missing: not known. */
  readonly isSmall?: boolean;
  /** Of mode changes: what is known of its elements; null or missing: another mode. */
  readonly sequence?: SequenceState | null;
  readonly request: SourceRequest;
  /** The transformation chain that the run pinned; null if it has no step. */
  readonly chain: PinnedChain | null;
  readonly names: KeyNames;
  readonly encoding: Encoding;
  readonly readRows: ReadRows;
  readonly withoutRows: WithoutRows;
  /** The rows to remove from the current files, instead of all else; null or missing: none. */
  readonly erased?: ErasedValue | null;
  /** True if the export keeps the snapshot that was to be removed, by now; missing: no. */
  readonly isKept?: boolean;
  readonly partitionLimits?: PartitionLimits;
  /** The table that the files belong to; null or missing: none. */
  readonly table?: ExportTable | null;
  /** The generation of this attempt; no other attempt ever has it. */
  readonly generation: number;
  /** Signs the manifest with the installation's key of this moment. */
  readonly sign: Sign;
  /** The interval's current receipt at this destination; null before the first commit. */
  readonly current: CurrentReceipt | null;
  /** Manifests at prefixes that the export has left at its present place. After the commit tombstones replace them. */
  readonly formerManifests: readonly string[];
  /** The last known intent of an earlier attempt of this run. */
  readonly intent: CommitIntent | null;
}

export interface PinnedChain {
  readonly steps: readonly StepDefinition[];
  readonly recipe: readonly RecipeStep[];
}

/** A manifest, or the metadata of a file, says this about its commit. */
type SeenCommit = Pick<Manifest, 'run_id' | 'generation' | 'era' | 'moved_to'>;

/** The pipeline reports and asks through these during a run. */
export interface RunPorts {
  readonly journal: UploadJournal;
  progressed(progress: Progress): Promise<void>;
  /** Checks the fence before anything becomes readable, and stores the intent. @throws `run.lease_lost`, `run.cancelled` */
  confirmCommit(intent: CommitIntent): Promise<void>;
  /** For what makes a commit current: nothing of it is sent once the lease is over. Right before an unconditional write it is extended. */
  readonly lease: PutLease;
  /** Raises the attempt's generation above `floor`: the bucket is ahead of our database. @throws `run.lease_lost` */
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
  /** Says what the attempt is doing from now on, for people who look. */
  at(step: RunStep): void;
}

/** The content of the destination before the attempt. */
export interface FoundCommit extends FoundManifest {
  readonly table: OpenTable | null;
}

export type IntervalSource = Pick<Source, 'settle' | 'describe' | 'open' | 'readSequence'>;

export interface Delivery {
  readonly job: IntervalJob;
  readonly destination: Destination;
  readonly ports: RunPorts;
  readonly signal: AbortSignal;
}

/** An attempt at an interval, once it is known what is at the destination. */
export interface IntervalAttempt extends Delivery {
  readonly source: IntervalSource;
  readonly found: FoundCommit;
}

export interface SettledAttempt extends IntervalAttempt {
  readonly settlement: Settlement;
  readonly steps: readonly Step[];
  readonly folder: SpoolFolder;
}

/** Makes the request that reads the rows: steps work on all columns. */
export function requestOf({ chain, request }: IntervalJob): SourceRequest {
  return chain ? { ...request, select: 'columns' } : request;
}
