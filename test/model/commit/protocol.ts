/** The commit protocol of docs/internals/guarantees.md. Each step is one transaction or one request; anything may happen in between. */

import { Violation } from '../explore.ts';
import { cleaning, forgetLeftovers, formerPlaces, removable } from './cleaning.ts';
import { allocate } from './generations.ts';
import type { Mutant } from './mutants.ts';
import {
  abortUploads,
  chooseUploads,
  forgetPlace,
  notePlace,
  openFile,
  stepOfUpload,
} from './uploads.ts';
import {
  type Attempt,
  type Database,
  foreign,
  generationOf,
  isForeign,
  keyNamedBy,
  keyOf,
  lastRun,
  type Manifest,
  placeOf,
  prefixOf,
  really,
  type State,
} from './state.ts';

/** What the destination's test found out about the store. */
export interface Store {
  /** If-None-Match on a put. */
  readonly ifNoneMatch: boolean;
  /** If-Match on a put. */
  readonly ifMatch: boolean;
  /** If-None-Match on CompleteMultipartUpload. */
  readonly onComplete: boolean;
}

export interface Rules {
  readonly store: Store;
  readonly mutant: Mutant | null;
  /** The weaker promise: no request of a commit takes effect after its sender's lease has ended. */
  readonly timely?: boolean;
  /** Attempts note the place before they begin an upload, and looks abort what dead ones have left. */
  readonly looks?: boolean;
}

/** Steps that are requests with an effect at the store: they can come late, or twice. */
export const requests: ReadonlySet<string> = new Set([
  'upload parts',
  'complete files',
  'put the manifest',
  'put a tombstone',
  'abort uploads',
  'delete files',
]);

/**
 * Takes the attempt's step in `state`.
 *
 * @returns the attempt at its next step, or null if it has ended (done, lost its lease, or failed:
 *   then another attempt follows)
 */
export function take(state: State, attempt: Attempt, rules: Rules): Attempt | null {
  const { db } = state;
  const at = (step: Attempt['step'], more: Partial<Attempt> = {}): Attempt => ({
    ...attempt,
    ...more,
    step,
  });
  switch (attempt.step) {
    case 'read the manifest':
      return readManifest(state, attempt, rules);
    case 'raise the generation': {
      if (!holds(db, attempt, rules)) return null;
      const generation = allocate(state, [attempt.found]);
      const raised = { ...attempt, generation };
      const begun = { ...raised, upload: openFile(raised, rules) };
      return { ...begun, step: stepOfUpload(begun, rules) };
    }
    case 'note the place':
      return notePlace(state, attempt, rules);
    case 'upload parts':
      return uploadParts(state, attempt, rules);
    case 'compare digests':
      return at(isUnchanged(state, attempt, rules) ? 'record unchanged' : 'begin commit');
    case 'record unchanged':
      return recordUnchanged(state, attempt, rules);
    case 'begin commit': {
      if (!holds(db, attempt, rules)) return null;
      const { config, generation, found } = attempt;
      const run = lastRun(db);
      if (run) run.intent = { ...config, generation };
      addLeftover(db, keyIn(attempt, rules));
      db.uncommitted.push(keyIn(attempt, rules));
      if (found) addLeftover(db, keyNamedBy(found));
      return at('complete files');
    }
    case 'complete files':
      return completeFiles(state, attempt, rules) ? at('put the manifest') : null;
    case 'put the manifest':
      return putManifest(state, attempt, rules);
    case 'look at the conflict':
      return lookAtConflict(state, attempt, rules);
    case 'read a former manifest':
      return readFormer(state, attempt, rules);
    case 'put a tombstone':
      return putTombstone(state, attempt, rules);
    case 'record':
      return attempt.committed && holds(db, attempt, rules)
        ? record(state, attempt, attempt.committed, rules)
        : null;
    case 'list uploads':
      return at('abort uploads', { listed: Object.keys(state.bucket.uploads) });
    case 'abort uploads': {
      const chosen = attempt.listed?.length ? chooseUploads(state, attempt, rules) : attempt;
      abortUploads(state, chosen, rules);
      if (chosen.run >= 0) return { ...chosen, step: cleaning(chosen, rules) };
      return { ...chosen, step: chosen.isAgain ? 'delete files' : 'forget the place' };
    }
    case 'delete files':
      for (const key of attempt.remove) deleteObject(state, key, rules);
      return at('forget leftovers');
    case 'forget leftovers':
      forgetLeftovers(db, attempt, rules);
      return null;
    case 'forget the place':
      forgetPlace(db, attempt, rules);
      return null;
  }
}

/** The fence: no other attempt has claimed the run since, and the database is the same. */
export function holds(db: Database, attempt: Attempt, { mutant }: Rules): boolean {
  const run = db.runs[attempt.run];
  return (
    run?.status === 'Running' &&
    run.fence === attempt.fence &&
    (attempt.era === db.era || mutant === 'fence_without_era')
  );
}

function readManifest({ db, bucket }: State, attempt: Attempt, rules: Rules): Attempt | null {
  const { prefix } = attempt.config;
  const there = (!isBlind(attempt, rules) && bucket.manifests[really(prefix)]) || null;
  // The run ends: another export, or another program, has the key.
  if (isForeign(there)) return null;
  const found = there && { ...there, prefix };
  const read = { ...attempt, found };
  const adopted = adopt(db, read, rules);
  if (adopted) return { ...read, committed: adopted, step: 'record' };
  const isTooLow = found !== null && found.generation >= attempt.generation;
  const raises = isTooLow && rules.mutant !== 'no_floor_from_manifest';
  return { ...read, step: raises ? 'raise the generation' : stepOfUpload(read, rules) };
}

/** The first commit of an interval expects nothing: a store that keeps If-None-Match refuses what would be wrong. */
function isBlind({ generation }: Attempt, { store, mutant }: Rules): boolean {
  if (generation > 1) return false;
  return (store.ifNoneMatch && store.onComplete) || mutant === 'first_commit_reads_nothing';
}

/** The manifest that an earlier attempt of this run put, exactly as its recorded intent says. */
function adopt(db: Database, { run, era, found }: Attempt, { mutant }: Rules): Manifest | null {
  const intent = db.runs[run]?.intent;
  if (!intent || !found || found.run !== run || found.era !== era) return null;
  if (mutant === 'adopt_without_digests') return { ...found, ...intent };
  return found.generation === intent.generation && found.bytes === intent.bytes ? found : null;
}

/** Other bytes than the current need no compare. */
function uploadParts({ db, bucket }: State, attempt: Attempt, rules: Rules): Attempt {
  const { config, upload, found } = attempt;
  const isEqual = found?.bytes === config.bytes;
  const late = !holds(db, attempt, rules);
  if (upload !== '') bucket.uploads[upload] = { parts: config.bytes, late };
  return { ...attempt, step: isEqual ? 'compare digests' : 'begin commit' };
}

function isUnchanged({ bucket }: State, { found, config }: Attempt, { mutant }: Rules): boolean {
  const key = found && keyNamedBy(found);
  if (!found || !key || found.bytes !== config.bytes) return false;
  return bucket.objects[really(key)] === found.bytes || mutant === 'skip_presence_check';
}

/**
 * The current manifest stays. Unless a sleeper may still replace it, or it is not the receipt's: then a
 * new commit stops the sleeper.
 */
function recordUnchanged(state: State, attempt: Attempt, rules: Rules): Attempt | null {
  const { db } = state;
  const { found } = attempt;
  if (!found || !holds(db, attempt, rules)) return null;
  const isNewest = !db.leftovers.some((key) => generationOf(key) > found.generation);
  const mayHaveSleepers = found.era !== db.era || !isNewest;
  // It may be about to get a tombstone.
  const isHere = placeOf(db.receipt?.prefix ?? '') === placeOf(found.prefix);
  const isFormer = db.receipt?.tag !== found.tag || !isHere;
  const isRefused =
    (rules.mutant !== 'unchanged_beside_a_sleeper' && mayHaveSleepers) ||
    (rules.mutant !== 'unchanged_at_a_former_prefix' && isFormer);
  if (isRefused) return { ...attempt, step: 'begin commit' };
  return record(state, attempt, found, rules);
}

function completeFiles(state: State, attempt: Attempt, rules: Rules): boolean {
  const { bucket } = state;
  if (attempt.upload === '') return putFile(state, attempt, rules);
  const upload = bucket.uploads[attempt.upload];
  if (!upload) return false;
  const key = keyIn(attempt, rules);
  const isConditional = rules.store.onComplete && !reusesKeys(rules);
  if (isConditional && bucket.objects[really(key)] !== undefined)
    return refused(state, attempt, rules);
  mustBeOurs(state, key, 'replaced');
  mustNotBeNamed(state, key, 'written');
  bucket.objects[really(key)] = upload.parts;
  delete bucket.uploads[attempt.upload];
  return true;
}

/** If the key is free. A refused put may be the second copy of one that took effect: then the object is ours. */
function putFile(state: State, attempt: Attempt, rules: Rules): boolean {
  const { objects } = state.bucket;
  const { bytes } = attempt.config;
  const key = keyIn(attempt, rules);
  const isFree = objects[really(key)] === undefined || rules.mutant === 'put_over_what_is_there';
  if (!isFree) return objects[really(key)] === bytes || refused(state, attempt, rules);
  mustNotBeNamed(state, key, 'written');
  objects[really(key)] = bytes;
  return true;
}

/** The object at the key belongs to another: the note of the key is withdrawn. */
function refused({ db, bucket }: State, attempt: Attempt, rules: Rules): false {
  const key = keyIn(attempt, rules);
  if (bucket.objects[really(key)] === foreign && holds(db, attempt, rules)) withdraw(db, key);
  return false;
}

function withdraw(db: Database, key: string): void {
  db.leftovers = db.leftovers.filter((one) => one !== key);
  db.uncommitted = db.uncommitted.filter((one) => one !== key);
}

function putManifest(state: State, attempt: Attempt, rules: Rules): Attempt {
  const { prefix, bytes } = attempt.config;
  const there = state.bucket.manifests[really(prefix)] ?? null;
  const expected = rules.mutant === 'put_on_a_fresh_tag' ? there : attempt.found;
  if (!mayReplace(there, expected, rules.store)) {
    return { ...attempt, step: 'look at the conflict' };
  }
  if (isForeign(there)) throw new Violation('C10', `another's manifest at ${prefix} is replaced`);
  const committed = manifestOf(attempt, prefix, bytes, rules);
  state.bucket.manifests[really(prefix)] = { ...committed, prefix: really(prefix) };
  return { ...attempt, committed, step: 'record' };
}

/** If-Match for a manifest that was there, If-None-Match for the first one. */
export function mayReplace(
  there: Manifest | null,
  expected: Manifest | null,
  store: Store,
): boolean {
  if (expected === null) return there === null || !store.ifNoneMatch;
  return there?.tag === expected.tag || !store.ifMatch;
}

function manifestOf(
  { run, era, generation, fence }: Attempt,
  prefix: string,
  bytes: string | null,
  rules: Rules,
): Manifest {
  const tag = `${era}.${run}.${generation}.${fence}.${bytes}`;
  const named = reusesKeys(rules) ? 0 : generation;
  return { prefix, tag, run, era, generation: named, bytes };
}

/** The refused put may be the second copy of one that took effect: then the manifest is ours. */
function lookAtConflict(state: State, attempt: Attempt, rules: Rules): Attempt | null {
  const { prefix, bytes } = attempt.config;
  const ours = manifestOf(attempt, prefix, bytes, rules);
  if (rules.mutant === 'delete_own_files_after_a_conflict') {
    deleteObject(state, keyIn(attempt, rules), rules);
    return null;
  }
  const there = state.bucket.manifests[really(prefix)] ?? null;
  if (isForeign(there)) return giveWay(state, attempt, rules);
  const isOurs = there?.tag === ours.tag;
  return isOurs ? { ...attempt, committed: ours, step: 'record' } : null;
}

/** No manifest of ours can come at the key any more, if this commit was the only one. So its files are deleted at once. */
function giveWay(state: State, attempt: Attempt, rules: Rules): null {
  const { db, seen } = state;
  const isSole = db.uncommitted.length === 1 && db.receipt === null;
  if (!isSole || !holds(db, attempt, rules)) return null;
  const key = keyIn(attempt, rules);
  seen.refused.push(key);
  if (rules.mutant === 'keep_files_of_a_refused_commit') return null;
  deleteObject(state, key, rules);
  withdraw(db, key);
  return null;
}

/** A manifest of a later generation is the current one, by a run that came after this one. */
function readFormer(state: State, attempt: Attempt, rules: Rules): Attempt {
  const [prefix = '', ...former] = attempt.former;
  const there = state.bucket.manifests[really(prefix)] ?? null;
  const isLater = there !== null && (isForeign(there) || there.generation > attempt.generation);
  if (isLater && rules.mutant !== 'tombstone_without_generation') {
    // Its files are not ours to remove.
    const remove = attempt.remove.filter((key) => prefixOf(key) !== prefix);
    return { ...attempt, former, there: null, remove, step: cleaning({ former, remove }, rules) };
  }
  return { ...attempt, there, step: 'put a tombstone' };
}

/** On the tag that was just read. A refused one reads again: there is always an end to sleepers. */
function putTombstone(state: State, attempt: Attempt, rules: Rules): Attempt {
  const [prefix = '', ...former] = attempt.former;
  const { manifests } = state.bucket;
  const at = really(prefix);
  if (!mayReplace(manifests[at] ?? null, attempt.there, rules.store)) {
    return { ...attempt, there: null, step: 'read a former manifest' };
  }
  if (rules.mutant === 'delete_the_old_manifest') delete manifests[at];
  else manifests[at] = manifestOf(attempt, at, null, rules);
  return { ...attempt, former, there: null, step: cleaning({ ...attempt, former }, rules) };
}

/** Run, receipt and leftovers in one transaction. */
function record(state: State, attempt: Attempt, committed: Manifest, rules: Rules): Attempt {
  const { db } = state;
  const { run, found } = attempt;
  const row = db.runs[run];
  if (row) Object.assign(row, { status: 'Completed', bytes: committed.bytes });
  const places = formerPlaces(db, committed.prefix, rules);
  const forgets = ({ prefix }: Manifest) =>
    rules.mutant === 'receipt_moves_without_a_record' &&
    placeOf(prefix) !== placeOf(committed.prefix);
  for (const manifest of [db.receipt, found]) {
    if (manifest && !forgets(manifest)) addLeftover(db, keyNamedBy(manifest));
  }
  const named = keyNamedBy(committed);
  db.leftovers = db.leftovers.filter((key) => key !== named);
  db.uncommitted = db.uncommitted.filter((key) => key !== named);
  db.receipt = committed;
  state.seen.astray = false;
  const work = { former: places, remove: removable(db, rules) };
  const done = { found: null, committed: null, generation: committed.generation };
  // Of what is unchanged, nothing was completed.
  const abort = state.bucket.uploads[attempt.upload] ? [attempt.upload] : [];
  const step = abort.length > 0 ? 'abort uploads' : cleaning(work, rules);
  return { ...attempt, ...done, ...work, abort, upload: '', step };
}

function keyIn({ config, generation }: Attempt, rules: Rules): string {
  return keyOf(config, reusesKeys(rules) ? 0 : generation);
}

function reusesKeys({ mutant }: Rules): boolean {
  return mutant === 'reuse_keys' || mutant === 'overwrite_named_keys';
}

function addLeftover(db: Database, key: string | null): void {
  if (key !== null && !db.leftovers.includes(key)) db.leftovers.push(key);
}

/** Each object says whose it is. */
function deleteObject(state: State, key: string, { mutant }: Rules): void {
  const { objects } = state.bucket;
  const there = objects[really(key)];
  if (there === undefined) return;
  if (there === foreign && mutant !== 'delete_what_was_noted') return;
  mustBeOurs(state, key, 'deleted');
  mustNotBeNamed(state, key, 'deleted');
  delete objects[really(key)];
}

function mustBeOurs({ bucket }: State, key: string, what: string): void {
  if (bucket.objects[really(key)] === foreign) {
    throw new Violation('C10', `another's object at ${key} is ${what}`);
  }
}

function mustNotBeNamed({ bucket, seen }: State, key: string, what: string): void {
  const isNamed = Object.values(bucket.manifests).some((one) => keyNamedBy(one) === really(key));
  if (isNamed && !seen.damaged.includes(really(key))) {
    throw new Violation('C1', `${key} is ${what} while the current manifest names it`);
  }
}
