/**
 * `sluice-runs` carries long jobs, as many at a time as a worker has slots, `sluice-small-runs` runs that are expected
 * to be small, so they need not wait behind large ones. `sluice-control` carries short jobs, so a run never delays a tick.
 * `sluice-verify` carries verifications, one at a time in a worker.
 */
export const queueNames = {
  control: 'sluice-control',
  runs: 'sluice-runs',
  smallRuns: 'sluice-small-runs',
  verify: 'sluice-verify',
} as const;

export type QueueName = (typeof queueNames)[keyof typeof queueNames];

export interface Job<Data> {
  readonly queue: QueueName;
  /** Checks what the queue delivers. @throws if it is not the data of this job */
  readonly parse: (data: unknown) => Data;
  /** Milliseconds between two jobs of a recurring kind. */
  readonly everyMs?: number;
  /** The time after each multiple of `everyMs` at which it comes; default: any time. */
  readonly afterMs?: number;
}

const noData = () => ({});

function idIn(data: unknown, name: string): string {
  const id: unknown = typeof data === 'object' && data !== null && Reflect.get(data, name);
  if (typeof id !== 'string') throw new Error(`the job has no ${name}`);
  return id;
}

const { control, runs, smallRuns, verify } = queueNames;

interface RunData {
  readonly runId: string;
}

const runOf = (data: unknown): RunData => ({ runId: idIn(data, 'runId') });

const runsOf = (data: unknown): { readonly runs: readonly RunData[] } => {
  const runs: unknown = Reflect.get(Object(data), 'runs');
  if (!Array.isArray(runs)) throw new Error('the job has no runs');
  return { runs: runs.map(runOf) };
};

/** Jobs carry ids only, never a secret: the dashboard shows them. */
const catalogue = {
  /** Decides due ticks, then dispatches runs. They are due at whole seconds of our database, which may be a little behind. */
  tick: { queue: control, parse: noData, everyMs: 1_000, afterMs: 50 },
  'dispatch-runs': { queue: control, parse: noData },
  'execute-run': { queue: runs, parse: runOf },
  'execute-small-run': { queue: smallRuns, parse: runOf },
  /** Runs that begin together, so that they share statements. */
  'execute-small-runs': { queue: smallRuns, parse: runsOf },
  'advance-backfill': {
    queue: control,
    parse: (data: unknown) => ({ backfillId: idIn(data, 'backfillId') }),
  },
  /** Verifies an export for the day that begins at `dueAt`. */
  'verify-export': {
    queue: verify,
    parse: (data: unknown) => ({ exportId: idIn(data, 'exportId'), dueAt: idIn(data, 'dueAt') }),
  },
  /** Cleans up expired leases and abandoned uploads, and advances backfills. */
  sweep: { queue: control, parse: noData, everyMs: 5_000 },
  'apply-retention': { queue: control, parse: noData, everyMs: 3_600_000 },
};

export type JobName = keyof typeof catalogue;

export type JobData = { readonly [Name in JobName]: ReturnType<(typeof catalogue)[Name]['parse']> };

/** The handler of each job. If it throws, the error is logged and the next job retries. */
export type JobHandlers = { readonly [Name in JobName]: (data: JobData[Name]) => Promise<void> };

export const jobs: { readonly [Name in JobName]: Job<JobData[Name]> } = catalogue;

export function isJobName(name: string): name is JobName {
  return Object.hasOwn(jobs, name);
}
