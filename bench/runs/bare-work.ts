/** What the parent sends to the bare loop. */
export interface BareWork {
  /** Ids of rows of `bare_runs`. */
  readonly ids: readonly number[];
  /** The hour that begins here, in epoch milliseconds, is that of the first id. */
  readonly start: number;
  /** After so many hours the first comes again. */
  readonly hours: number;
  /** They take turns; when each had one, the next hour follows. */
  readonly teams: readonly number[];
  readonly toS3: boolean;
  /** Whether each run is a job of a queue. */
  readonly asJobs: boolean;
}

/** How long the bare loop took. */
export interface BareTaken {
  readonly wallMs: number;
}

export const createBareRuns = `create table bare_runs (
  id int primary key, status text not null, started_at timestamptz, finished_at timestamptz, rows bigint)`;
