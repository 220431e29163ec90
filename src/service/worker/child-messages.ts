import type { ErrorCode } from '../../foundation/domain/errors.ts';

/** Messages of a worker to a process of its own. `setup` and `job` belong to the composition root. */
export type ToChild =
  | { readonly kind: 'execute'; readonly setup: unknown; readonly job: unknown }
  /** The lease is lost, or the worker shuts down. */
  | { readonly kind: 'stop'; readonly code: ErrorCode };

/** Messages of such a process to its worker. */
export type FromChild<Report> =
  | { readonly kind: 'alive' }
  | { readonly kind: 'ended'; readonly report: Report };

/** How often such a process reports that its event loop is alive. */
export const aliveEveryMs = 1_000;
