/** The life of a run: its states, and what each event does in each of them. */

export type RunStatus =
  | 'Starting'
  | 'Running'
  | 'Completed'
  | 'Failed'
  | 'FailedRetryable'
  | 'Cancelled';

export const runStatuses: readonly RunStatus[] = [
  'Starting',
  'Running',
  'Completed',
  'Failed',
  'FailedRetryable',
  'Cancelled',
];

export const terminalStatuses: readonly RunStatus[] = [
  'Completed',
  'Failed',
  'FailedRetryable',
  'Cancelled',
];

/**
 * claimed: a worker took the lease (first attempt, a retry, or after the last lease ran out).
 * handed_back: the attempt ended without an outcome (shutdown, passing fault): another will follow.
 * completed: the manifest is in force. failed: somebody must act. exhausted: attempts ran out.
 */
export type RunEvent =
  | 'claimed'
  | 'handed_back'
  | 'completed'
  | 'failed'
  | 'exhausted'
  | 'cancelled';

const transitions: Record<RunStatus, Partial<Record<RunEvent, RunStatus>>> = {
  Starting: { claimed: 'Running', failed: 'Failed', cancelled: 'Cancelled' },
  Running: {
    claimed: 'Running',
    handed_back: 'Running',
    completed: 'Completed',
    failed: 'Failed',
    exhausted: 'FailedRetryable',
    cancelled: 'Cancelled',
  },
  Completed: {},
  Failed: {},
  FailedRetryable: {},
  Cancelled: {},
};

/** The state after `event`, or null where the event is not legal in `status`. */
export function nextStatus(status: RunStatus, event: RunEvent): RunStatus | null {
  return transitions[status][event] ?? null;
}

export function isTerminal(status: RunStatus): boolean {
  return terminalStatuses.includes(status);
}
