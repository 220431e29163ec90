import type { Settlement } from '../../rows/sources/source.ts';
import type { Producer } from '../../state/queue/producer.ts';
import type { LookBack } from '../../state/store/intervals/look-backs.ts';
import type { VerifyJob } from '../../state/store/intervals/verifications.ts';
import type { RunNeeds } from '../../state/store/runs/outbox.ts';
import type { Admission } from '../admission/admission.ts';
import type { StatementSources } from '../use-cases/statements/make-statement.ts';
import type { WorkGuard } from '../use-cases/work-guard.ts';
import type { AttemptReport } from './attempt-end.ts';
import type { AttemptOptions } from './attempt.ts';
import type { NotificationCourier } from './notification-courier.ts';
import type { ChildProgram } from './run-alone.ts';
import type { LeaseKeeper } from './leases.ts';
import type { SampleOptions } from './run-sample-jobs.ts';

export interface ExecutorOptions extends AttemptOptions {
  readonly leases: LeaseKeeper;
  readonly workerId: string;
  readonly stopping: AbortSignal;
  readonly program: ChildProgram;
  readonly onSweepError: (error: unknown) => void;
  readonly onLookBackError: (error: unknown, item: LookBack) => void;
}

export interface StatementParts {
  readonly statements: StatementSources;
  /** Names and bytes of the checkers, which are put beside the statements. */
  readonly checkers: readonly (readonly [name: string, bytes: Buffer])[];
}

export interface HandlerOptions {
  readonly producer: Producer;
  readonly executor: ExecutorOptions & { readonly guard: WorkGuard };
  readonly admission: Admission;
  readonly waits: { settle(runId: string, needs: RunNeeds): Promise<Readiness> };
  readonly courier: Pick<NotificationCourier, 'collect'>;
  readonly previewRows: SampleOptions['previewRows'];
  readonly defaultModel: SampleOptions['defaultModel'];
  readonly statements: StatementParts;
  readonly reports: WorkerReports;
  /** The time of day at which exports are to be verified; null: none is. */
  readonly verifySchedule: string | null;
  /** Verifies an export and records the result, unless that was done. */
  readonly verify: (job: VerifyJob) => Promise<void>;
}

export interface WorkerReports {
  attemptEnded(report: AttemptReport, seconds: number): void;
  /** A small run threw: its job has ended before. */
  runFailed(error: unknown): void;
  /** Schedules were decided, and runs dispatched. */
  ticked(): void;
  runsMade(by: 'tick' | 'backfill' | 'healing', runs: number): void;
  scheduleFailed(error: unknown, exportId: string): void;
  sampleFailed(error: unknown): void;
  offboarded(offboardingId: string): void;
  offboardingFailed(error: unknown): void;
}

/** Null: the run does not begin now. A null settlement: it settles within its attempt. */
export type Readiness = { readonly settlement: Settlement | null } | null;

/** Looks for more work when a run has ended. */
export interface NextRuns {
  advance(backfillId: string): Promise<void>;
  dispatch(): Promise<void>;
}
