import type { ErrorCode } from '../../foundation/domain/errors.ts';
import type { ClaimedRun } from '../../state/store/claims.ts';
import type { AttemptReport } from './attempt-report.ts';

/** Messages of a worker to the process of a run. `setup` belongs to the composition root. */
export type ToChild =
  | { readonly kind: 'execute'; readonly setup: unknown; readonly run: ClaimedRun }
  /** The lease is lost, or the worker shuts down. */
  | { readonly kind: 'stop'; readonly code: ErrorCode };

/** Messages of a run's process to its worker. */
export type FromChild =
  | { readonly kind: 'alive' }
  | { readonly kind: 'ended'; readonly report: Omit<AttemptReport, 'run'> };

/** How often the process of a run reports that its event loop is alive. */
export const aliveEveryMs = 1_000;
