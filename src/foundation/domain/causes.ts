/** What keeps intervals from their data, and whose turn it is to end that. */

import { type ErrorCode, errorCatalogue, isErrorCode } from './errors.ts';

/** `destination`: a place of files with its credentials. `source`: a database. `export`: the export alone. */
export type CauseScope = 'destination' | 'source' | 'export';

/** What a failure says about the place where it happened. */
export interface CauseKind {
  readonly scope: CauseScope;
  /**
   * Whether every attempt at the place must fail in the same way. While such a cause is open, no attempt is made there but
   * its probes.
   */
  readonly isCertain: boolean;
}

const certain = (scope: CauseScope): CauseKind => ({ scope, isCertain: true });

/** Errors that are about a place. All others are about the export. */
const ofPlaces: Partial<Record<ErrorCode, CauseKind>> = {
  'destination.unavailable': certain('destination'),
  'destination.throttled': certain('destination'),
  'destination.stalled': certain('destination'),
  'destination.invalid_answer': certain('destination'),
  'destination.not_a_store': certain('destination'),
  'destination.invalid_credentials': certain('destination'),
  'destination.expired_credentials': certain('destination'),
  'destination.bucket_not_found': certain('destination'),
  'destination.wrong_region': certain('destination'),
  'destination.certificate_refused': certain('destination'),
  'destination.proxy_refused': certain('destination'),
  // A policy may allow one prefix and not another.
  'destination.access_denied': { scope: 'destination', isCertain: false },
  'source.unavailable': certain('source'),
  'source.access_refused': certain('source'),
  'source.out_of_resources': certain('source'),
};

/** A person must decide: Sluice tries none of these again by itself. */
export const decidedByPeople: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'destination.files_differ',
  'run.cancelled',
  'run.crashed',
  'run.late_rows_wait',
  'run.unknown_history',
  'source.rows_missing',
]);

/** Null: what failed in this way never heals by itself. */
export function causeKindOf(code: ErrorCode): CauseKind | null {
  if (decidedByPeople.has(code)) return null;
  return ofPlaces[code] ?? { scope: 'export', isCertain: false };
}

/** Who can end a fault: the operator of Sluice, the owner of the source, or the customer. */
export const turns = ['ours', 'source', 'customer'] as const;
export type Turn = (typeof turns)[number];

/** Errors whose remedy is with others than their place suggests. */
const ownTurns: Partial<Record<ErrorCode, Turn>> = {
  'destination.proxy_refused': 'ours',
  'source.count_mismatch': 'ours',
  'source.model_invalid': 'ours',
  'source.relation_missing': 'customer',
  'source.row_too_large': 'customer',
  'source.schema_changed': 'ours',
  'source.standby': 'ours',
  'source.unknown_model': 'ours',
};

export function turnOf(code: ErrorCode): Turn {
  const own = ownTurns[code];
  if (own !== undefined) return own;
  if (code.startsWith('source.')) return 'source';
  return errorCatalogue[code].fault === 'internal' ? 'ours' : 'customer';
}

/** Whose turn a stored code is; one that this build does not know is ours. */
export const turnOfCode = (code: string): Turn => (isErrorCode(code) ? turnOf(code) : 'ours');

const minuteMs = 60_000;

/**
 * The wait between two probes of a cause: a twentieth of the time since it began, from a minute to an hour. So whatever
 * ends is noticed soon, compared with how long it took.
 *
 * @param ageMs since it began
 */
export function probeDelayMs(ageMs: number): number {
  return Math.min(60 * minuteMs, Math.max(minuteMs, Math.round(ageMs / 20)));
}

/** A place is suspected until this many attempts failed there, over this time, without a success. */
export const suspicion = { failures: 3, ms: 15_000 } as const;
