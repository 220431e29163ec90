/** What sessions do meanwhile, and what must hold. */

import { type Model, type Move, Violation } from '../explore.ts';
import { advance, canAdvance, canDie, canGoBack, forget, goBack, type Mutant } from './protocol.ts';
import { copyOf, type Session, type State } from './state.ts';

export interface Scenario {
  readonly mutant: Mutant | null;
  /** How many transactions a message of each session may hold; each session gets one message. */
  readonly sessions: readonly number[];
  /** Which of them are sessions to our own tables, by index. */
  readonly store?: readonly number[];
  readonly isStandby: boolean;
  /** Whether the wait may be given up at its bound. */
  readonly isBounded: boolean;
  /** Whether the run goes back to the outbox between two looks, and its workers die or freeze. */
  readonly goesBack?: boolean;
}

export function settleModel(scenario: Scenario): Model<State> {
  return {
    start: startOf(scenario),
    keyOf: JSON.stringify,
    movesOf: (state) => movesOf(state, scenario),
    check,
  };
}

function startOf({ sessions, store = [], isStandby, mutant }: Scenario): State {
  return {
    isPast: false,
    sessions: sessions.map((_, index) => ({
      message: null,
      left: 1,
      isStore: store.includes(index),
    })),
    prepared: [],
    nextVirtualId: 1,
    nextId: 1,
    log: [],
    replayed: isStandby ? 0 : null,
    look: {
      phase: 'wait for the clock',
      names: null,
      virtual: [],
      sessions: [],
      nextId: 0,
      saved: null,
      savedBefore: null,
      position: mutant === 'prepared_first' ? -1 : 0,
      isBeyondBound: false,
      rows: [],
    },
  };
}

function movesOf(state: State, scenario: Scenario): Move<State>[] {
  const moves: Move<State>[] = [];
  const add = (label: string, change: (next: State) => void) => {
    const next = () => {
      const copy = copyOf(state);
      change(copy);
      return copy;
    };
    moves.push({ label, next });
  };
  const { look, replayed } = state;
  // Nothing is left that could add a row to the interval.
  if (look.phase === 'settled' && !hasOld(state)) return moves;
  if (!state.isPast) {
    add("the source's clock passes the end", (next) => {
      next.isPast = true;
    });
  }
  if (canAdvance(state, scenario.mutant)) {
    add(look.phase === 'unsettled' ? 'a look-back begins' : look.phase, (next) =>
      advance(next, scenario.mutant),
    );
  }
  if (scenario.goesBack) addWorker(state, scenario, add);
  if (scenario.isBounded && !look.isBeyondBound && look.names !== null) {
    add('the bound of the wait is hit', (next) => {
      next.look.isBeyondBound = true;
    });
  }
  if (replayed !== null && replayed < state.log.length) {
    add('the standby replays a commit', (next) => {
      next.replayed = replayed + 1;
    });
  }
  state.sessions.forEach((_, index) => {
    addSession(state, scenario, index, add);
  });
  state.prepared.forEach(({ id, isOld }, index) => {
    add(`commit prepared ${id}`, (next) => {
      next.prepared.splice(index, 1);
      next.log.push({ id, isOld });
    });
  });
  return moves;
}

function hasOld({ sessions, prepared, isPast }: State): boolean {
  const isOpen = sessions.some(({ message, left }) => message?.isOld || (!isPast && left > 0));
  return isOpen || prepared.some(({ isOld }) => isOld);
}

function addWorker(state: State, { mutant }: Scenario, add: Add): void {
  const { look } = state;
  if (canGoBack(state, mutant)) add('the run goes back', (next) => goBack(next, mutant));
  if (canDie(state)) add('its worker dies', forget);
  if (look.phase === 'wait in the outbox' && look.saved !== look.savedBefore) {
    add('a frozen worker writes the names that it had found before', (next) => {
      next.look.saved = look.savedBefore;
    });
  }
}

type Add = (label: string, change: (next: State) => void) => void;

function addSession(state: State, { sessions }: Scenario, index: number, add: Add): void {
  const name = `session ${index + 1}`;
  const session = state.sessions[index];
  if (!session) return;
  const { message, left } = session;
  const change = (label: string, work: (next: State, own: Session) => void) => {
    add(`${name}: ${label}`, (next) => {
      const own = next.sessions[index];
      if (own) work(next, own);
    });
  };
  if (message === null) {
    if (left === 0) return;
    change(`a message comes, ${state.isPast ? 'after' : 'before'} the end`, (next, own) => {
      own.left -= 1;
      const left = sessions[index] ?? 0;
      own.message = { isOld: !next.isPast, left, transaction: null };
    });
    return;
  }
  const { transaction, isOld } = message;
  const end = (own: Session) => {
    if (own.message) own.message.transaction = null;
  };
  if (transaction === null) {
    change('its message is done', (_, own) => {
      own.message = null;
    });
    if (message.left === 0) return;
    change('begin', (next, own) => {
      if (!own.message) return;
      own.message.left -= 1;
      own.message.transaction = { virtualId: next.nextVirtualId, id: null };
      next.nextVirtualId += 1;
    });
    return;
  }
  const { id } = transaction;
  if (id === null) {
    change(`insert, with a time ${isOld ? 'in' : 'after'} the interval`, (next, own) => {
      if (own.message) own.message.transaction = { ...transaction, id: next.nextId };
      next.nextId += 1;
    });
    return;
  }
  change(`commit ${id}`, (next, own) => {
    end(own);
    next.log.push({ id, isOld });
  });
  change(`prepare transaction ${id}`, (next, own) => {
    end(own);
    next.prepared.push({ id, isOld });
  });
}

/** A settled interval's snapshot has every row of the interval, also those that come later. */
function check({ look, log }: State): void {
  if (look.phase !== 'settled') return;
  for (const { id, isOld } of log) {
    if (isOld && !look.rows.includes(id))
      throw new Violation(
        'S1',
        `the row of transaction ${id} is in the interval, not in the snapshot`,
      );
  }
}
