/** The states of a run and the events between them. The store builds its SQL from this. */

/** Make its interval anew, add late rows to its files, remove a person's rows from them, or remove a snapshot by the export's rule. */
export const runPurposes = ['whole', 'supplement', 'erase', 'expire'] as const;

export type RunPurpose = (typeof runPurposes)[number];

/** Says whether a run of this purpose reads rows of the source. The others only change what was delivered. */
export const readsSource = (purpose: RunPurpose): boolean =>
  purpose === 'whole' || purpose === 'supplement';

export const runStatuses = [
  'Starting',
  'Running',
  'Completed',
  'Failed',
  'FailedRetryable',
  'Cancelled',
] as const;

export type RunStatus = (typeof runStatuses)[number];

/** Filters of a list of runs. `Retrying` is no status: the run has not ended, and an attempt has failed. */
export const runFilters = [...runStatuses, 'Retrying'] as const;
export type RunFilter = (typeof runFilters)[number];

export const terminalStatuses: readonly RunStatus[] = [
  'Completed',
  'Failed',
  'FailedRetryable',
  'Cancelled',
];

export const liveStatuses: readonly RunStatus[] = ['Starting', 'Running'];

/** An event of a run: the states it can happen in, and the state after it. */
interface Move {
  readonly from: readonly RunStatus[];
  readonly to: RunStatus;
}

export const runMoves = {
  /** A worker took the lease: the first attempt, a retry, or after the last lease expired. */
  claimed: { from: liveStatuses, to: 'Running' },
  /** The attempt ended without an outcome (shutdown, transient error): another will follow. */
  handed_back: { from: ['Running'], to: 'Running' },
  /** The manifest is current. */
  completed: { from: ['Running'], to: 'Completed' },
  /** The customer or the operator must act. */
  failed: { from: ['Running'], to: 'Failed' },
  /** All attempts met transient errors. */
  exhausted: { from: ['Running'], to: 'FailedRetryable' },
  cancelled: { from: liveStatuses, to: 'Cancelled' },
} as const satisfies Record<string, Move>;

export type RunEvent = keyof typeof runMoves;

export function isTerminal(status: RunStatus): boolean {
  return terminalStatuses.includes(status);
}
