import type { Limit } from './bounds.ts';

/** What a guard's error begins with; the source room takes its text from there. */
export const guardMark = 'value too large: ';

/** The stored form of a value is compressed, at best, to a 256th (lz4). */
const maxCompression = 256;

/**
 * The value of `text` if it is within the limit; if it is not, an error of class 22. Nothing
 * interrupts PostgreSQL inside one call, so the size is looked at before.
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
  // The message holds the size, so that the planner can't work it out beforehand.
  const message = `pg_catalog.concat(${name}, ${size})`;
  const failure = `CASE WHEN ${condition} THEN CAST(${message} AS pg_catalog.bool) END`;
  return `CASE WHEN ${failure} THEN NULL ELSE ${text} END`;
}
