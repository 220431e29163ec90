/** What is left to do once a commit is recorded: tombstones, uploads, files. */

import type { Rules } from './protocol.ts';
import {
  type Attempt,
  type Database,
  generationOf,
  keyNamedBy,
  lastRun,
  placeOf,
  prefixOf,
  really,
  type State,
} from './state.ts';

/** A put that was sent before may make a file again: its record stays until it is deleted once more. */
export function forgetLeftovers(
  db: Database,
  { remove, isAgain = false }: Attempt,
  { mutant }: Rules,
): void {
  db.uncommitted = db.uncommitted.filter((key) => !remove.includes(key));
  const isKept = (key: string) => !isAgain && db.leftovers.includes(key);
  const kept = mutant === 'forget_after_one_deletion' ? [] : remove.filter(isKept);
  const forgotten = remove.filter((key) => !kept.includes(key));
  // Another sweep may have deleted the object a moment ago.
  const ends = (key: string) => forgotten.includes(key) && (isAgain || !db.deleted.includes(key));
  db.leftovers = db.leftovers.filter((key) => !ends(key));
  db.deleted = db.deleted.filter((key) => !ends(key));
  for (const key of kept) if (!db.deleted.includes(key)) db.deleted.push(key);
}

/** Prefixes of the same place at which the interval has, or may yet get, a manifest that is not the current one. */
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
  const isHere = (place: string) => place !== prefix && placeOf(place) === placeOf(prefix);
  return [...new Set(places)].filter(isHere).sort();
}

/**
 * A marker object shows that two addresses are one place: what is on record at the other one is at the present one.
 *
 * @param here a prefix at the present place
 */
export function mergePlaces(db: Database, here: string): void {
  const inName = (key: string) => (placeOf(here) === 'a' ? `a:${really(key)}` : really(key));
  const moved = (key: string) =>
    placeOf(really(key)) === placeOf(really(here)) ? inName(key) : key;
  const { receipt } = db;
  db.receipt = receipt && { ...receipt, prefix: moved(receipt.prefix) };
  const named = db.receipt && keyNamedBy(db.receipt);
  for (const set of ['leftovers', 'uncommitted', 'deleted'] as const) {
    db[set] = [...new Set(db[set].map(moved))].filter((key) => key !== named);
  }
  db.isMerged = true;
  // An attempt that was claimed before knows another receipt.
  const run = lastRun(db);
  if (run?.status === 'Running') run.fence += 1;
}

/** Whether the records know the present place by another address too. */
export function hasAlias({ db }: State, here: string): boolean {
  const known = [...(db.receipt ? [db.receipt.prefix] : []), ...db.leftovers];
  return known.some(
    (key) => placeOf(key) !== placeOf(here) && placeOf(really(key)) === placeOf(really(here)),
  );
}

/** Tombstones first: no manifest may name what is removed. */
export function cleaning(
  { former, remove }: Pick<Attempt, 'former' | 'remove'>,
  { mutant }: Rules,
): Attempt['step'] {
  if (former.length > 0 && mutant !== 'delete_before_tombstone') return 'read a former manifest';
  return remove.length > 0 ? 'delete files' : 'forget leftovers';
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
      (placeOf(key) === placeOf(receipt.prefix) &&
        generationOf(key) < receipt.generation &&
        !mayBeNamed(key) &&
        !deleted.includes(key)),
  );
}
