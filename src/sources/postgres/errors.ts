import { type ErrorCode, SluiceError } from '../../domain/errors.ts';
import { guardMark } from '../../query/guard.ts';
import { CopyFormatError } from './copy-format-error.ts';

/** SQLSTATEs that say more than their class. */
const byState: Readonly<Record<string, ErrorCode>> = {
  '25P03': 'source.timeout', // idle_in_transaction_session_timeout
  '25P04': 'source.timeout', // transaction_timeout
  '55P03': 'source.timeout', // lock_not_available
  '57014': 'source.timeout', // query_canceled: statement_timeout, or by hand
  '42501': 'source.permission_denied',
  '42P01': 'source.relation_missing',
  '42703': 'source.relation_missing',
  '3F000': 'source.relation_missing',
};

/** The first two characters of an SQLSTATE are its class. */
const byClass: Readonly<Record<string, ErrorCode>> = {
  '0A': 'query.invalid', // feature not supported
  '21': 'query.invalid', // cardinality violation
  '22': 'query.invalid', // data exception: a cast or a division that a row cannot take
  '2F': 'query.invalid',
  '42': 'query.invalid', // syntax error, unknown function, datatype mismatch
  '54': 'query.invalid', // program limit exceeded: a row or a value of more than 1 GiB, a deep stack
};

/**
 * What a failure of the source database means. For an error in the query the detail has the server's text.
 * For all others the owner of the export sees only the kind, not hosts or roles. Unknown errors are
 * `source.unavailable` and are retried.
 */
export function toSourceError(error: unknown): SluiceError {
  if (error instanceof SluiceError) return error;
  if (error instanceof CopyFormatError) {
    return new SluiceError('source.unavailable', error.message, error);
  }
  if (!(error instanceof Error)) return new SluiceError('internal.unexpected', undefined, error);
  const code = 'code' in error && typeof error.code === 'string' ? error.code : null;
  const isState = code !== null && /^[0-9A-Z]{5}$/.test(code) && 'severity' in error;
  if (!isState) {
    // A network failure (`ECONNREFUSED`), or pg's own error about a lost connection.
    if (error instanceof TypeError || error instanceof RangeError) {
      return new SluiceError('internal.unexpected', undefined, error);
    }
    return new SluiceError('source.unavailable', code ?? undefined, error);
  }
  // A value of more than 1 GiB has no SQLSTATE of its own.
  const isHuge = code === 'XX000' && error.message.startsWith('invalid memory alloc request size');
  const known = isHuge
    ? 'query.invalid'
    : (byState[code] ?? byClass[code.slice(0, 2)] ?? 'source.unavailable');
  // Only our own statements sort, by the model's interval column and keys.
  if (code === '42883' && /ordering operator/.test(error.message)) {
    return new SluiceError('source.model_invalid', error.message, error);
  }
  const detail = known === 'source.unavailable' ? `SQLSTATE ${code}` : detailOf(error.message);
  return new SluiceError(known, detail, error);
}

/** Takes the text of a guard out of the cast error that the guard causes. */
function detailOf(message: string): string {
  const start = message.indexOf(`"${guardMark}`);
  return start < 0 ? message : message.slice(start + 1).replace(/"$/, '');
}
