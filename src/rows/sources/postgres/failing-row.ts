import { SluiceError } from '../../../foundation/domain/errors.ts';
import { refusedTime } from '../../query/time-text.ts';
import { serverErrorOf, toSourceError, wordsOf } from './errors.ts';

/** Maximum time of the search, which reads the interval's rows once more. */
const longestSearchMs = 20_000;

/** The options for the search: who waits for the error has waited for the failed statement too. */
export function searchOptions<Options extends { readonly statementTimeoutMs: number }>(
  options: Options,
): Options {
  const statementTimeoutMs = Math.min(longestSearchMs, Math.ceil(options.statementTimeoutMs / 4));
  return { ...options, statementTimeoutMs };
}

/** A longer value is not searched for, and a longer key is cut. */
const longestValue = 10_000;
const longestKey = 200;

/**
 * The error of a query with the key of a row that has the value of PostgreSQL's message, if the message has
 * one and a search finds it soon: `invalid input syntax for type integer: "abc", in the row with id 17`.
 *
 * @param sqlOf finds the keys of a row with that value; null if it cannot
 * @param read reads the rows of an SQL with `searchOptions`
 * @throws the signal's reason if it aborts
 */
export async function nameFailingRow(
  error: unknown,
  sqlOf: (value: string) => string | null,
  read: (sql: string) => Promise<readonly KeyRow[]>,
  signal: AbortSignal,
): Promise<SluiceError> {
  const sourceError = toSourceError(error);
  if (sourceError.code !== 'query.invalid') return sourceError;
  const said = serverErrorOf(error);
  const words = said === null ? (sourceError.detail ?? '') : wordsOf(said.message);
  for (const value of quotedValues(words)) {
    const sql = sqlOf(value);
    const key = sql === null ? null : await read(sql).then(keyOf, () => null);
    signal.throwIfAborted();
    if (key === null) continue;
    return new SluiceError(sourceError.code, `${words}, in the row with ${key}`, error);
  }
  return new SluiceError(sourceError.code, words, error);
}

/** Quotes of the languages that PostgreSQL speaks. */
const quoted = /"(.*?)"|»(.*?)«|«(.*?)»|„(.*?)[“”]|“(.*?)”|「(.*?)」|'(.*?)'/gs;
/** A value may have quotes in it. */
const lastQuoted = /: "(.*)"$/s;

/** Lists the texts that a message of PostgreSQL quotes, in any language: the last is the value that it cannot read, or the first. */
export function quotedValues(message: string): readonly string[] {
  const [, whole] = lastQuoted.exec(message) ?? [];
  const all = [...message.matchAll(quoted)].map(([, ...groups]) => {
    const value = groups.find((group) => group !== undefined) ?? '';
    return value
      .replace(/^\u00a0|\u00a0$/g, '')
      .replace(refusedTime, '')
      .trim();
  });
  const values = [(whole ?? '').replace(refusedTime, ''), ...all.reverse()];
  const short = values.filter((value) => value !== '' && value.length <= longestValue);
  return [...new Set(short)].slice(0, 3);
}

type KeyRow = Readonly<Record<string, string | null>>;

/** `id 17`; null if no row was found. */
function keyOf([row = {}]: readonly KeyRow[]): string | null {
  const parts = Object.entries(row).map(([name, text]) => {
    const shown =
      text !== null && text.length > longestKey ? `${text.slice(0, longestKey)}…` : text;
    return `${name} ${shown}`;
  });
  return parts.length === 0 ? null : parts.join(', ');
}
