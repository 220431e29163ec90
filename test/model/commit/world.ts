/** What can happen around the protocol: claims, kills, late and doubled requests, sweeps, restores. */

import { type Model, type Move, Violation } from '../explore.ts';
import { check } from './invariants.ts';
import { cleaning, formerPlaces, hasAlias, mergePlaces, removable } from './cleaning.ts';
import { allocate, give } from './generations.ts';
import { holds, type Rules, requests, take } from './protocol.ts';
import { openFile } from './uploads.ts';
import {
  type Attempt,
  type Budget,
  type Config,
  copyOf,
  copyOfDatabase,
  foreign,
  keyNamedBy,
  keyOf,
  keyOfState,
  lastRun,
  really,
  type State,
} from './state.ts';

export interface Scenario extends Rules {
  /** The export's configs in the order of its edits; an edit shows at the next claim. */
  readonly configs: readonly Config[];
  readonly budget: Partial<Budget>;
  /** Workers and sweeps that exist at once, the frozen ones included. */
  readonly workers?: number;
  /** A prefix at which another export has put a manifest before. */
  readonly takenPrefix?: string;
  /** Which invariants are checked; all if it is left out. */
  readonly promises?: RegExp;
}

export function commitModel(scenario: Scenario): Model<State> {
  return {
    start: startOf(scenario),
    keyOf: keyOfState,
    movesOf: (state) => movesOf(state, scenario),
    check: (state) => {
      try {
        check(state, scenario);
      } catch (error) {
        if (!(error instanceof Violation) || scenario.promises?.test(error.invariant) !== false)
          throw error;
      }
    },
  };
}

const otherExports = (prefix: string) => ({
  ...{ prefix, tag: foreign, run: -1, era: -1, generation: 1, bytes: null },
});

function startOf({ budget, workers = 2, takenPrefix: taken }: Scenario): State {
  const rare = { restores: 0, outsiders: 0, foreigners: 0 };
  const none = { failures: 0, late: 0, echoes: 0, sweeps: 0, looks: 0, ...rare };
  return {
    db: {
      era: 0,
      runs: [],
      receipt: null,
      leftovers: [],
      uncommitted: [],
      deleted: [],
      noted: null,
    },
    bucket: { objects: {}, manifests: taken ? { [taken]: otherExports(taken) } : {}, uploads: {} },
    workers: Array.from({ length: workers }, () => null),
    late: [],
    config: 0,
    backup: null,
    budget: { runs: 2, claims: 3, ...none, ...budget },
    seen: { given: [], damaged: [], refused: [], damagedAt: 0, restored: false, astray: false },
  };
}

function movesOf(state: State, scenario: Scenario): Move<State>[] {
  const moves: Move<State>[] = [];
  const add = (label: string, change: (next: State) => void) => {
    const next = () => {
      const copy = copyOf(state);
      change(copy);
      if (scenario.mutant !== 'fence_without_era') dropIdle(copy, scenario);
      return copy;
    };
    moves.push({ label, next });
  };
  state.workers.forEach((attempt, slot) => {
    if (attempt) addSteps(state, scenario, attempt, slot, add);
  });
  addLate(state, scenario, add);
  const free = state.workers.indexOf(null);
  if (free >= 0) addStarts(state, scenario, free, add);
  addAccidents(state, add);
  addForeigners(state, add);
  const here = scenario.configs[state.config]?.prefix ?? '';
  if (scenario.mutant !== 'places_by_their_address' && hasAlias(state, here)) {
    add('the sweep finds out that two addresses are one place', (next) => {
      mergePlaces(next.db, here);
    });
  }
  return moves;
}

/** Transactions that change our database. */
const writes: ReadonlySet<string> = new Set([
  'raise the generation',
  'note the place',
  'record unchanged',
  'begin commit',
  'record',
  'forget leftovers',
  'forget the place',
]);

/** Steps that come to nothing once the lease is lost: such an attempt is over. */
const idle: ReadonlySet<string> = new Set([
  'raise the generation',
  'note the place',
  'compare digests',
  'record unchanged',
  'begin commit',
  'record',
]);

/** Leaves out states that differ only in attempts that can do nothing any more. */
function dropIdle(state: State, rules: Rules): void {
  state.workers = state.workers.map((attempt) =>
    attempt && idle.has(attempt.step) && !holds(state.db, attempt, rules) ? null : attempt,
  );
}

type Add = (label: string, change: (next: State) => void) => void;

/** A worker that takes no step is frozen; it may wake at any time. */
function addSteps(state: State, scenario: Scenario, attempt: Attempt, slot: number, add: Add) {
  const { step, name } = attempt;
  const isRequest = requests.has(step) && !(step === 'upload parts' && attempt.upload === '');
  if (!scenario.timely || mayStillAct(state, scenario, attempt)) {
    add(`${name}: ${step}`, (next) => {
      next.workers[slot] = take(next, attempt, scenario);
    });
    if (step === 'put the manifest') {
      add(`${name}: ${step}; the answer is lost, the client sends it again`, (next) => {
        const first = take(next, attempt, scenario);
        const isPut = first !== null && first.step !== 'look at the conflict';
        next.workers[slot] = isPut ? take(next, attempt, scenario) : first;
      });
    }
    if (isRequest && state.budget.echoes > 0 && step !== 'upload parts') {
      add(`${name}: ${step}, and a second copy of the request stays on its way`, (next) => {
        next.workers[slot] = take(next, attempt, scenario);
        next.late.push({ ...attempt, name: `late, ${name}` });
        next.budget.echoes -= 1;
      });
    }
  }
  // A kill before a step that only reads is no other than one before the step that follows.
  if (isRequest || writes.has(step)) {
    add(`${name} is killed before it can ${step}`, (next) => {
      next.workers[slot] = null;
    });
  }
  if (isRequest && state.budget.late > 0 && !scenario.timely) {
    add(`${name} is killed; its request to ${step} stays on its way`, (next) => {
      next.workers[slot] = null;
      next.late.push({ ...attempt, name: `late, ${name}` });
      next.budget.late -= 1;
    });
  }
}

/** Reads and uploads hurt no one; what makes something readable must come within the lease. */
function mayStillAct({ db }: State, rules: Rules, attempt: Attempt): boolean {
  return !requests.has(attempt.step) || attempt.run < 0 || !isCommitting(attempt)
    ? true
    : holds(db, attempt, rules);
}

function isCommitting({ step }: Attempt): boolean {
  return step === 'complete files' || step === 'put the manifest';
}

function addLate(state: State, scenario: Scenario, add: Add): void {
  state.late.forEach((attempt, index) => {
    if (scenario.timely && !mayStillAct(state, scenario, attempt)) return;
    add(`${attempt.name}: ${attempt.step} takes effect`, (next) => {
      next.late.splice(index, 1);
      take(next, attempt, scenario);
    });
  });
}

function addStarts(state: State, scenario: Scenario, slot: number, add: Add): void {
  const { db, budget } = state;
  const isLive = lastRun(db)?.status === 'Running';
  if (budget.claims > 0 && (isLive || budget.runs > 0)) {
    for (let index = state.config; index < scenario.configs.length; index += 1) {
      const config = scenario.configs[index];
      if (config === undefined) continue;
      const { prefix, bytes } = config;
      const fence = isLive ? (lastRun(db)?.fence ?? 0) + 1 : 1;
      const name = `run ${db.runs.length + (isLive ? 0 : 1)}, attempt ${fence}`;
      add(`${name}: claim, for ${bytes} at ${prefix}`, (next) => {
        next.config = index;
        next.workers[slot] = claim(next, scenario, name, config);
      });
    }
  }
  if (budget.looks > 0 && db.noted !== null) {
    add('the sweep looks for uploads', (next) => {
      next.budget.looks -= 1;
      next.workers[slot] = look(next, scenario);
    });
  }
  if (budget.sweeps > 0 && db.deleted.length > 0) {
    add('an hour passes, and the sweep deletes once more', (next) => {
      next.budget.sweeps -= 1;
      // It replaces the list of workers.
      const begun = sweepAgain(next, scenario);
      next.workers[slot] = begun;
    });
  }
  if (budget.sweeps > 0 && db.receipt !== null) {
    add('the sweep lists leftovers', (next) => {
      next.budget.sweeps -= 1;
      next.workers[slot] = sweep(next, scenario);
    });
  }
}

/** The lease has run out, or was given back: with no clock in the model, at any time. */
function claim(state: State, rules: Rules, name: string, config: Config): Attempt {
  const { db, budget } = state;
  budget.claims -= 1;
  let run = lastRun(db);
  if (run?.status !== 'Running') {
    run = { status: 'Running', fence: 0, generation: 0, intent: null, bytes: null };
    db.runs.push(run);
    budget.runs -= 1;
  }
  run.fence += 1;
  const isShared = run.generation > 0 && rules.mutant === 'share_a_generation';
  if (!isShared) {
    if (rules.mutant === 'generation_from_receipt_only')
      give(state, 1 + (db.receipt?.generation ?? 0));
    else allocate(state, []);
  }
  const attempt = {
    name,
    run: db.runs.length - 1,
    fence: run.fence,
    era: db.era,
    config,
    step: 'read the manifest' as const,
    generation: run.generation,
    found: null,
    committed: null,
    former: [],
    there: null,
    abort: [],
    remove: [],
  };
  return { ...attempt, upload: openFile(attempt, rules) };
}

/**
 * An hour after a deletion no store takes a put that was sent before it: its signature is too old. A worker without
 * its lease sends none. Uploads of dead attempts are aborted before: else one could still become a file.
 */
export function sweepAgain(state: State, rules: Rules): Attempt {
  const { db } = state;
  const isPut = ({ step, upload }: Attempt) => step === 'complete files' && upload === '';
  state.late = state.late.filter((attempt) => !isPut(attempt));
  state.workers = state.workers.map((attempt) =>
    attempt && isPut(attempt) && !holds(db, attempt, rules) ? null : attempt,
  );
  const begun = sweep(state, rules);
  const work = { former: [], remove: [...db.deleted], isAgain: true };
  const isBlind = rules.mutant === 'delete_again_before_the_look';
  return { ...begun, ...work, step: isBlind || rules.looks ? 'delete files' : 'list uploads' };
}

/** What runs may begin while it looks is not in its list, so then it comes again. */
export function look(state: State, rules: Rules): Attempt {
  const { db } = state;
  const isBusy = lastRun(db)?.status === 'Running';
  return { ...sweep(state, rules), notes: isBusy ? null : db.noted, step: 'list uploads' };
}

export function sweep(state: State, rules: Rules): Attempt {
  const { db } = state;
  const live = lastRun(db)?.status === 'Running' ? db.runs.length : 0;
  const { generation, prefix } = db.receipt ?? { generation: 0, prefix: '' };
  const isEarly = rules.mutant === 'remove_uncommitted_early';
  const work = {
    former: live === 0 ? formerPlaces(db, prefix, rules) : [],
    remove: isEarly ? [...db.leftovers] : live === 0 ? removable(db, rules) : [],
  };
  return {
    ...work,
    name: 'the sweep',
    run: -1,
    fence: 0,
    era: db.era,
    config: { prefix: '', bytes: '' },
    step: cleaning(work, rules),
    generation,
    upload: '',
    found: null,
    committed: null,
    there: null,
    abort: [],
  };
}

function addAccidents(state: State, add: Add): void {
  const { db, budget, bucket } = state;
  if (budget.failures > 0 && lastRun(db)?.status === 'Running') {
    add(`run ${db.runs.length} ends as Failed`, (next) => {
      const run = lastRun(next.db);
      if (run) run.status = 'Failed';
      next.budget.failures -= 1;
    });
  }
  if (budget.restores > 0) {
    if (state.backup === null) {
      add('a backup of the database is taken', (next) => {
        next.backup = copyOfDatabase(next.db);
      });
    }
    if (state.backup !== null) {
      add('the database is restored from the backup, in a new era', (next) => {
        const era = next.db.era + 1;
        next.db = { ...(next.backup ?? next.db), era };
        next.backup = null;
        next.budget.restores -= 1;
        next.seen.restored = true;
        next.seen.astray = true;
      });
    }
  }
  if (budget.outsiders > 0) {
    for (const manifest of Object.values(bucket.manifests)) {
      const key = keyNamedBy(manifest);
      if (key === null || bucket.objects[key] === undefined) continue;
      add(`an outsider deletes ${key}`, (next) => {
        delete next.bucket.objects[key];
        next.seen.damaged.push(key);
        next.seen.damagedAt = next.db.runs.length;
        next.budget.outsiders -= 1;
      });
    }
  }
}

/** Another program puts an object, or another export its manifest, at a key of an attempt that has read what is there. */
function addForeigners({ workers, bucket, budget }: State, add: Add): void {
  if (budget.foreigners === 0) return;
  for (const attempt of workers) {
    if (!attempt || attempt.run < 0 || attempt.step === 'read the manifest') continue;
    const { config, generation } = attempt;
    const key = really(keyOf(config, generation));
    if (bucket.objects[key] === undefined) {
      add(`another program puts ${key}`, (next) => {
        next.bucket.objects[key] = foreign;
        next.budget.foreigners -= 1;
      });
    }
    const prefix = really(config.prefix);
    if (bucket.manifests[prefix] === undefined) {
      add(`another export puts its manifest at ${prefix}`, (next) => {
        next.bucket.manifests[prefix] = otherExports(prefix);
        next.budget.foreigners -= 1;
      });
    }
  }
}
