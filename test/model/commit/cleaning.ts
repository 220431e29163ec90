/** What is left to do once a commit is recorded: tombstones, uploads, files. */

import type { Rules } from './protocol.ts';
import { type Attempt, type Database, generationOf, prefixOf } from './state.ts';

/** A put that was sent before may make a file again: its record stays until it is deleted once more. */
export function forgetLeftovers(
  db: Database,
  { remove, isAgain = false }: Attempt,
  { puts = false, mutant }: Rules,
): void {
  db.uncommitted = db.uncommitted.filter((key) => !remove.includes(key));
  const isKept = (key: string) => puts && !isAgain && db.leftovers.includes(key);
  const kept = mutant === 'forget_after_one_deletion' ? [] : remove.filter(isKept);
  const forgotten = remove.filter((key) => !kept.includes(key));
  // Another sweep may have deleted the object a moment ago.
  const ends = (key: string) => forgotten.includes(key) && (isAgain || !db.deleted.includes(key));
  db.leftovers = db.leftovers.filter((key) => !ends(key));
  db.deleted = db.deleted.filter((key) => !ends(key));
  for (const key of kept) if (!db.deleted.includes(key)) db.deleted.push(key);
}

/** Prefixes at which the interval has, or may yet get, a manifest that is not the current one. */
export function formerPlaces(
  { receipt, leftovers, deleted }: Database,
  prefix: string,
  { mutant }: Rules,
): string[] {
  const isBlind = mutant === 'tombstone_only_where_the_receipt_is';
  const places = [
    ...(receipt ? [receipt.prefix] : []),
    ...(isBlind ? [] : leftovers.filter((key) => !deleted.includes(key)).map(prefixOf)),
  ];
  return [...new Set(places)].filter((place) => place !== prefix).sort();
}

/**
 * Tombstones first: no manifest may name what is removed. Then uploads: one that is still open may
 * become a file that is on no record.
 */
export function cleaning(
  { former, remove }: Pick<Attempt, 'former' | 'remove'>,
  { mutant }: Rules,
): Attempt['step'] {
  if (former.length > 0 && mutant !== 'delete_before_tombstone') return 'read a former manifest';
  return mutant === 'delete_before_abort' && remove.length > 0 ? 'delete files' : 'abort uploads';
}

/**
 * Only generations below the current one: no manifest can name them again. Without If-Match a sleeper
 * still can, so what was never confirmed stays.
 */
export function removable(
  { leftovers, uncommitted, deleted, receipt }: Database,
  { mutant, store, timely = false }: Rules,
): string[] {
  if (!receipt) return [];
  const mayBeNamed = (key: string) => !store.ifMatch && !timely && uncommitted.includes(key);
  return leftovers.filter(
    (key) =>
      mutant === 'reuse_keys' ||
      (generationOf(key) < receipt.generation && !mayBeNamed(key) && !deleted.includes(key)),
  );
}
