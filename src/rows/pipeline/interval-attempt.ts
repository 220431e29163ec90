import type { Destination } from '../destinations/destination.ts';
import type { Settlement, Source, SourceRequest } from '../sources/source.ts';
import type { Step } from '../transforms/step.ts';
import type { IntervalJob, RunPorts } from './interval-job.ts';
import type { FoundManifest } from './manifest.ts';
import type { SpoolFolder } from './spool-folder.ts';
import type { OpenTable } from './table-format.ts';

/** The content of the destination before the attempt. */
export interface FoundCommit extends FoundManifest {
  /** Null: the export has no table. */
  readonly table: OpenTable | null;
}

/** The part of a source that an attempt uses. */
export type IntervalSource = Pick<Source, 'settle' | 'describe' | 'open' | 'readSequence'>;

/** Each step that writes at the destination needs these. */
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

/** An attempt whose interval has settled. */
export interface SettledAttempt extends IntervalAttempt {
  readonly settlement: Settlement;
  /** The opened steps of the job's chain. */
  readonly steps: readonly Step[];
  readonly folder: SpoolFolder;
}

/** Makes the request that reads the rows: steps work on all columns, and on text. */
export function requestOf({ chain, encoding, request }: IntervalJob): SourceRequest {
  if (chain) return { ...request, select: 'columns' };
  return encoding.takesNumerics ? { ...request, numerics: 'binary' } : request;
}
