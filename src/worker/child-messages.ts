import type { ErrorCode } from '../domain/errors.ts';
import type { ClaimedRun } from '../store/leases.ts';
import type { AttemptReport } from './attempt-report.ts';

/** What a worker sends to the process of a run. `setup` is the composition root's own. */
export type ToChild =
  | { readonly kind: 'execute'; readonly setup: unknown; readonly run: ClaimedRun }
  /** The lease is gone, or the worker shuts down. */
  | { readonly kind: 'stop'; readonly code: ErrorCode };

/** What the process of a run sends to its worker. */
export type FromChild =
  | { readonly kind: 'alive' }
  | { readonly kind: 'ended'; readonly report: Omit<AttemptReport, 'run'> };

/** How often the process of a run says that its event loop turns. */
export const aliveEveryMs = 1_000;
