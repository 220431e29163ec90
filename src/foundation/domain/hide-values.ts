import { type ErrorCode, errorCatalogue, isErrorCode } from './errors.ts';
import { hideFolders } from './partition.ts';

/** Codes whose details name addresses, rights, columns or settings. The details of other codes may quote a row. */
const withoutValues: ReadonlySet<ErrorCode> = new Set([
  'source.access_refused',
  'source.count_mismatch',
  'source.failed',
  'source.lock_released',
  'source.model_invalid',
  'source.out_of_resources',
  'source.permission_denied',
  'source.recovery_conflict',
  'source.relation_missing',
  'source.schema_changed',
  'source.standby',
  'source.timeout',
  'source.unavailable',
  'source.unknown_model',
  'run.crashed',
  'run.unknown_history',
]);

const mayShow = (code: ErrorCode): boolean =>
  /^(destination|internal|secrets)\./.test(code) || withoutValues.has(code);

const anyCode = /\b[a-z]+\.[a-z_]+(?=: |$)/g;

/** The end of the id of an access key. */
const endOfKey = /…\w{4}\b/g;

/** The text that a plugin writes, and all that follows a count of rejected rows or the keys of rows. */
const ofRows =
  /(^Step \d+ \(.*?\) writes|\brows? (?:was|were) rejected|\brows (?:went on without this step)|\bThe first(?: keys)?)\b.*$/s;

/** Rows that a verification names by their keys. */
const named = /(\b\d+ rows? (?:doubled|missing|came|gone|moved|more often)[^:;\n]*:) [^;\n]*/g;

const quoted = /"[^"]*"|“[^”]*”|«[^»]*»|'[^']*'|\{[^}]*\}/g;

/** A text for an operator, who may see nothing of the rows: what may quote a row becomes `…`. */
export function hideValues(given: string): string {
  // First: a plugin chooses its words, and may write a code.
  const text = hideFolders(given)
    .replace(ofRows, '$1 …')
    .replace(named, '$1 …')
    .replace(endOfKey, '…');
  const codes = [...text.matchAll(anyCode)].flatMap(({ 0: code, index }) =>
    isErrorCode(code) ? [{ code, index }] : [],
  );
  const begin = codes[0]?.index ?? text.length;
  const hidden = codes.find(({ code }) => !mayShow(code));
  const shown = text.slice(0, begin).replace(quoted, '…') + text.slice(begin, hidden?.index);
  if (!hidden) return shown;
  const { means, remedy } = errorCatalogue[hidden.code];
  return `${shown}${hidden.code}: ${means} ${remedy}`;
}
