/**
 * PostgreSQL keeps each time zone that a text has named as long as the connection is open, and any word with a number,
 * such as `ABC5`, names one. So a text of a query may name zones of a closed list, and a text of a row none.
 */

/** The zones that this machine knows: about 600 names. A number alone, such as `+05:00`, is an offset and no zone. */
export function isKnownZone(name: string): boolean {
  if (!/^[a-z][\w+/-]*$/i.test(name)) return false;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}

/** ISO 8601, and what PostgreSQL itself prints. Both PostgreSQL and JavaScript read this pattern. */
const isoTime =
  '\\s*(?:[-+]?infinity|[-+.:/0-9\\s]+(?:T[-+.:0-9\\s]+)?(?:[ap]m)?\\s*(?:Z|UTC|GMT)?(?:\\s*(?:AD|BC))?)\\s*';

/** The server's error begins with this if it refuses a text. */
export const refusedTime = 'no ISO 8601 time: ';

const maxTimeLength = 100;

/** Itself if it is one in ISO 8601, else one that fails. @param text SQL of the value */
export function printTimeText(text: string): string {
  const start = `pg_catalog.left(CAST(${text} AS pg_catalog.text), ${maxTimeLength + 1})`;
  const other = `(?i)^(?!.{0,${maxTimeLength}}$)|^(?!${isoTime}$)`;
  return `pg_catalog.regexp_replace(${start}, '${other}', '${refusedTime}')`;
}

const iso = new RegExp(`^${isoTime}$`, 'i');

/** Words of times and intervals; none of them is a zone with a number. */
const words = new Set(
  (
    'ad bc am pm t z utc gmt zulu infinity epoch allballs ago ' +
    'jan feb mar apr may jun jul aug sep sept oct nov dec sun mon tue tues wed thu thur thurs fri sat ' +
    'january february march april june july august september october november december ' +
    'sunday monday tuesday wednesday thursday friday saturday ' +
    'second seconds sec secs minute minutes min mins hour hours hr hrs day days week weeks month months mons ' +
    'year years yr yrs decade century millisecond milliseconds microsecond microseconds'
  ).split(' '),
);

export function findOtherZone(literal: string): string | null {
  if (iso.test(literal)) return null;
  const named = literal.match(/[^\W\d_][\w.:+/<>-]*/gu) ?? [];
  return named.find((word) => !words.has(word.toLowerCase()) && !isKnownZone(word)) ?? null;
}
