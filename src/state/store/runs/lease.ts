/** Proof that a worker holds a run. Every write of the worker includes it. */
export interface Lease {
  readonly runId: string;
  /** Rises with each claim of the run, and when the run is handed back. */
  readonly fence: number;
}
