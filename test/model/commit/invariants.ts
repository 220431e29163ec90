/** The invariants of docs/internals/guarantees.md, checked after every move. */

import { Violation } from '../explore.ts';
import { hasAlias, mergePlaces } from './cleaning.ts';
import { take } from './protocol.ts';
import {
  type Attempt,
  copyOf,
  foreign,
  keyNamedBy,
  lastRun,
  placeOf,
  really,
  type State,
} from './state.ts';
import { look, type Scenario, sweep, sweepAgain } from './world.ts';

function must(holdsTrue: boolean, invariant: string, what: string): void {
  if (!holdsTrue) throw new Violation(invariant, what);
}

/** Throws `Violation` if one does not hold. */
export function check(state: State, rules: Scenario): void {
  const { db, bucket, seen } = state;
  const current = Object.values(bucket.manifests).filter(({ bytes }) => bytes !== null);
  for (const manifest of current) {
    const key = keyNamedBy(manifest) ?? '';
    const there = bucket.objects[key];
    if (seen.damaged.includes(key)) continue;
    must(there !== undefined, 'C3', `the manifest at ${manifest.prefix} names ${key}: not there`);
    must(
      there === manifest.bytes,
      'C3',
      `the manifest at ${manifest.prefix} names ${key}: ${there}`,
    );
  }
  const run = lastRun(db);
  const isQuiet = state.workers.every((worker) => worker === null) && state.late.length === 0;
  for (const key of seen.refused) {
    const there = bucket.objects[really(key)] ?? foreign;
    must(there === foreign, 'C7', `${key} stays, though its manifest was refused`);
  }
  if (run?.status !== 'Completed' || seen.astray) return;
  const { receipt } = db;
  const named = receipt && bucket.manifests[really(receipt.prefix)];
  must(named?.bytes === run.bytes, 'C4', `the manifest is not that of the run that is Completed`);
  must(named?.tag === receipt?.tag, 'C5', 'the receipt is of another manifest');
  must(named?.generation === receipt?.generation, 'C5', 'the receipt has another generation');
  if (isQuiet) checkQuiet(copyOf(state), rules);
}

/** All is quiet. One more sweep, and only documented leftovers are there. */
function checkQuiet(state: State, rules: Scenario): void {
  const here = rules.configs[state.config]?.prefix ?? '';
  if (rules.mutant !== 'places_by_their_address' && hasAlias(state, here)) {
    mergePlaces(state.db, here);
  }
  for (let next: Attempt | null = sweep(state, rules); next; next = take(state, next, rules));
  for (let next: Attempt | null = sweepAgain(state, rules); next; next = take(state, next, rules));
  if (!rules.looks || state.db.noted !== null) {
    for (let next: Attempt | null = look(state, rules); next; next = take(state, next, rules));
  }
  const { db, bucket, seen } = state;
  const current = Object.values(bucket.manifests).filter(({ bytes }) => bytes !== null);
  // A place that the export has left keeps what was current there.
  const isHere = ({ prefix }: { prefix: string }) =>
    placeOf(prefix) === placeOf(really(db.receipt?.prefix ?? ''));
  const count = current.filter(isHere).length;
  must(count === 1, 'C6', `${count} manifests are current at the place of the receipt`);
  const key = db.receipt && keyNamedBy({ ...db.receipt, prefix: really(db.receipt.prefix) });
  // A run that began after the damage has repaired it.
  for (const damaged of seen.damaged) {
    const isOld = db.runs.length > seen.damagedAt;
    must(
      !isOld || key !== damaged || bucket.objects[key] !== undefined,
      'C4',
      `${damaged} is still missing`,
    );
  }
  // What the lost history had begun is on no record: `verify` finds it by listing the prefix.
  if (seen.restored) return;
  const open = Object.entries(bucket.uploads).filter(([, { late }]) => !late);
  must(open.length === 0, 'C7', `the upload of ${open[0]?.[0]} stays`);
  for (const file of Object.keys(bucket.objects)) {
    if (bucket.objects[file] === foreign) continue;
    const isRecorded = db.leftovers.some((one) => really(one) === file);
    must(file === key || isRecorded, 'C7', `${file} stays, and is not on record`);
  }
}
