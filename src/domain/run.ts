/** The life of a run: it starts, runs, and ends in one of four terminal states that it never leaves. */
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

export function isTerminal(status: RunStatus): boolean {
  return terminalStatuses.includes(status);
}
