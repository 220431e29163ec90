/** What an operator can do to all exports of a cause. */
export const taskActions = ['probe', 'retry', 'pause'] as const;

/**
 * `probe`: one interval of one export is exported again, which shows whether the cause is over. `retry`: the intervals without
 * data are, and exports that Sluice paused continue. `pause`: all are paused.
 */
export type TaskAction = (typeof taskActions)[number];

export type TaskStatus = 'Running' | 'Completed' | 'Cancelled';
