/** Every job there is, by name, with its data: ids only, never a secret. */
export interface JobCatalogue {
  /** Decides due ticks, then dispatches. Comes every second from the job scheduler. */
  tick: Record<string, never>;
  /** Lets waiting runs into the queue. */
  'dispatch-runs': Record<string, never>;
  'execute-run': { readonly runId: string };
  /** Makes the next runs of a backfill. */
  'advance-backfill': { readonly backfillId: string };
  /** Looks after what was left behind: leases that ran out, uploads, backfills. */
  sweep: Record<string, never>;
  /** Deletes what is older than its retention. */
  'apply-retention': Record<string, never>;
}

export type JobName = keyof JobCatalogue;

/**
 * `sluice-runs` carries the long work and is as wide as the worker allows; `sluice-control` carries
 * the short duties, so that no run ever keeps a tick waiting.
 */
export const queueNames = { control: 'sluice-control', runs: 'sluice-runs' } as const;

export type QueueName = (typeof queueNames)[keyof typeof queueNames];

export const queueOf: Record<JobName, QueueName> = {
  tick: queueNames.control,
  'dispatch-runs': queueNames.control,
  'execute-run': queueNames.runs,
  'advance-backfill': queueNames.control,
  sweep: queueNames.control,
  'apply-retention': queueNames.control,
};

/** Jobs that come by themselves, every so many milliseconds. */
export const recurringJobs: readonly { readonly name: JobName; readonly everyMs: number }[] = [
  { name: 'tick', everyMs: 1_000 },
  { name: 'sweep', everyMs: 5_000 },
  { name: 'apply-retention', everyMs: 3_600_000 },
];
