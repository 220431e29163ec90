/** Uploads of attempts, and the looks that abort those of dead ones. */

import { Violation } from '../explore.ts';
import { holds, mayReplace, type Rules } from './protocol.ts';
import {
  type Attempt,
  type Database,
  generationOf,
  keyOf,
  lastRun,
  prefixOf,
  really,
  type State,
} from './state.ts';

/** The upload of the attempt's file; empty if it has none, because it is small. */
export function openFile(
  { config, generation, fence, era }: Omit<Attempt, 'upload'>,
  rules: Rules,
): string {
  const isPut = config.isSmall === true && rules.store.ifNoneMatch;
  return isPut ? '' : `${keyOf(config, generation)} by ${era}.${fence}`;
}

/** Where an attempt goes on that is about to begin its upload. */
export function stepOfUpload({ upload }: Attempt, { looks = false }: Rules): Attempt['step'] {
  return upload !== '' && looks ? 'note the place' : 'upload parts';
}

/** Under the fence: the place is looked at until all is over that was noted before. */
export function notePlace({ db }: State, attempt: Attempt, rules: Rules): Attempt | null {
  if (!holds(db, attempt, rules)) return null;
  db.noted = (db.noted ?? 0) + 1;
  return { ...attempt, step: 'upload parts' };
}

/** The list first, then the records: what is listed and of a dead attempt stays so. */
export function chooseUploads({ db }: State, attempt: Attempt, rules: Rules): Attempt {
  const { listed = [] } = attempt;
  const abort = listed.filter((id) => isAbandoned(db, id, rules));
  const isKept = abort.length < listed.length;
  const notes = isKept && rules.mutant !== 'forget_the_place_at_once' ? null : attempt.notes;
  return { ...attempt, abort, listed: [], ...(notes !== undefined && { notes }) };
}

/** By the generation in its key: neither a live attempt has it, nor one that may still commit it. */
function isAbandoned(db: Database, id: string, { mutant }: Rules): boolean {
  const generation = generationOf(id);
  const run = lastRun(db);
  const given = db.runs.reduce((most, one) => Math.max(most, one.generation), 0);
  if (generation > given) return false;
  const isLive = run?.status === 'Running' && run.generation <= generation;
  if (isLive && mutant !== 'abort_what_a_live_attempt_has') return false;
  return !mayBeCommitted(db, id) || mutant === 'abort_what_a_sleeper_has';
}

/** Its commit has begun, and no later manifest is at the same key. */
function mayBeCommitted({ uncommitted, receipt, isMerged = false }: Database, id: string) {
  const [key = ''] = id.split(' ');
  if (!uncommitted.some((one) => really(one) === really(key))) return false;
  const name = (prefix: string) => (isMerged ? really(prefix) : prefix);
  const isHere = receipt !== null && name(receipt.prefix) === name(prefixOf(key));
  return !isHere || receipt.generation <= generationOf(id);
}

/** On some stores an abort that races with a completion destroys the object. */
export function abortUploads(state: State, { abort }: Attempt, rules: Rules): void {
  const { bucket, workers, late } = state;
  for (const id of abort) {
    if (bucket.uploads[id] === undefined) continue;
    for (const other of [...workers, ...late]) {
      if (other?.upload === id && mayNeed(state, other, rules)) {
        throw new Violation('C11', `the upload of ${id} is aborted while ${other.name} has it`);
      }
    }
    delete bucket.uploads[id];
  }
}

function mayNeed({ db, bucket }: State, attempt: Attempt, rules: Rules): boolean {
  const { step, found, config } = attempt;
  const isOpen = step === 'compare digests' || step === 'begin commit' || step === 'complete files';
  if (isOpen && holds(db, attempt, rules)) return true;
  const there = bucket.manifests[really(config.prefix)] ?? null;
  return step === 'complete files' && mayReplace(there, found, rules.store);
}

/** Unless an attempt noted the place meanwhile, or may have begun an upload since the list was made. */
export function forgetPlace(db: Database, { notes }: Attempt, { mutant }: Rules): void {
  const isSame = typeof notes === 'number' && notes === db.noted;
  if (isSame || mutant === 'forget_the_place_at_once') db.noted = null;
}
