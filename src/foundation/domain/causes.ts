/** Causes that keep intervals from their data, and whose turn it is to end them. */

import { type ErrorCode, errorCatalogue, isErrorCode } from './errors.ts';

/** A person must decide: Sluice tries none of these again by itself. The database has the same list (`is_decided_by_people`). */
export const decidedByPeople: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'destination.files_differ',
  'run.cancelled',
  'run.crashed',
  'run.late_rows_wait',
  'run.unknown_history',
  'source.json_too_deep',
  'source.rows_missing',
]);

/** Their remedy is all that a person can do. */
const decidedByRemedy: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'run.late_rows_wait',
  'source.rows_missing',
]);

/** The sentence after the remedy; '' if the remedy says it all. @param mayHeal false: the export does not heal */
export function afterRemedy(code: ErrorCode, mayHeal = true): string {
  if (decidedByRemedy.has(code)) return '';
  if (code === 'source.slow') return 'The run goes on meanwhile.';
  return mayHeal && !decidedByPeople.has(code)
    ? 'Once it works, Sluice exports what is missing by itself, for heal_for_hours. Later, retry the run.'
    : 'Sluice does not try it again by itself: retry the run once it is fixed.';
}

export const nextStepOf = (code: ErrorCode): string =>
  `${errorCatalogue[code].remedy} ${afterRemedy(code)}`.trimEnd();

/** Who can end a fault: the operator of Sluice, the owner of the source, or the customer. */
export const turns = ['ours', 'source', 'customer'] as const;
export type Turn = (typeof turns)[number];

/** Errors whose remedy is with others than their place suggests. */
const ownTurns: Partial<Record<ErrorCode, Turn>> = {
  'destination.files_differ': 'ours',
  'destination.proxy_refused': 'ours',
  'model.key_not_unique': 'ours',
  'model.version_without_trigger': 'source',
  'source.count_mismatch': 'ours',
  'source.json_too_deep': 'customer',
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

/**
 * An operator's act on an export. `probe`: its first interval without data is exported again, which shows whether the cause is
 * over. `retry`: all intervals without data are, and an export that Sluice paused continues. `pause`: it is paused.
 */
export const operatorActions = ['probe', 'retry', 'pause'] as const;
export type OperatorAction = (typeof operatorActions)[number];
