import type { Limit } from './bounds.ts';

/** The prefix of a guard's error. The source recognizes it and takes the rest as the error's text. */
export const guardMark = 'value too large: ';

/** The stored form of a value is compressed by at most this factor (lz4). */
const maxCompression = 256;

/**
 * The value of `text` if it is within the limit, else an error of class 22. PostgreSQL cannot be
 * interrupted inside one call, so the size is checked before.
 *
 * @param name what the value is called, as a literal
 */
export function printGuard(text: string, name: string, { bytes, stored }: Limit): string {
  const size = `pg_catalog.octet_length(CAST(${text} AS pg_catalog.text))`;
  const isLarge = `${size} > ${bytes}`;
  const first = Math.floor(bytes / maxCompression);
  const condition = stored
    ? `pg_catalog.pg_column_size(${text}) > ${first} AND ${isLarge}`
    : isLarge;
  // The message contains the size, so that the planner cannot compute it beforehand.
  const message = `pg_catalog.concat(${name}, ${size})`;
  const failure = `CASE WHEN ${condition} THEN CAST(${message} AS pg_catalog.bool) END`;
  return `CASE WHEN ${failure} THEN NULL ELSE ${text} END`;
}
