import type { LogTail } from './api-types.ts';

/** Entries of the log of a run, oldest first. */
export type TailEntries = LogTail['results'];

/** Entries that the page keeps; older ones are dropped. */
const kept = 5_000;

/** Adds those that are not there yet: an answer can repeat some. */
export function appended(entries: TailEntries, more: TailEntries): TailEntries {
  const known = new Set(entries.map(({ id }) => id));
  const added = more.filter(({ id }) => !known.has(id));
  if (added.length === 0) return entries;
  return [...entries, ...added].toSorted((a, b) => a.id - b.id).slice(-kept);
}
