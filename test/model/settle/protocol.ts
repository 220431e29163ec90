/** Settling, step by step, as docs/internals/guarantees.md has it. */

import { Violation } from '../explore.ts';
import type { Name, Phase, State, Transaction } from './state.ts';

export const mutants = {
  our_clock: 'fault 3: our own clock says that the interval has ended',
  virtual_ids_only: 'fault 11: virtual ids are listed once, and sessions not looked at',
  any_prepared: 'fault 7: a look-back waits until no transaction is prepared at all',
  standby_alone: 'fault 2: a standby without its primary counts as settled',
  no_wait_for_replay: 'the snapshot of a standby is taken before it has replayed',
  position_first: 'the position is read before the wait, not after it',
  prepared_first: 'prepared transactions are read before virtual ids',
  no_heirs: 'a virtual id that is gone is over, also if it is prepared now',
  store_left_out: 'a session to our own tables is left out also with a message from before the end',
  sessions_without_heirs: 'a session that is done is over, also if it has prepared a transaction',
  nothing_saved: 'a run that goes back to the outbox does not keep the names of what is pending',
  saved_mid_look:
    'a run goes back in the middle of its first look, with the names that it has so far',
} as const;

export type Mutant = keyof typeof mutants;

/** Takes the export's next step in `state`. */
export function advance(state: State, mutant: Mutant | null): void {
  const { look } = state;
  switch (look.phase) {
    case 'wait for the clock':
      if (mutant === 'standby_alone' && state.replayed !== null) look.phase = 'take the snapshot';
      else look.phase = mutant === 'position_first' ? 'read the position' : 'read sessions';
      return;
    case 'read sessions':
      // The next id is read by the same statement, before all else.
      look.nextId = state.nextId;
      look.sessions = state.sessions.flatMap(({ message, isStore }, index) =>
        message?.isOld && !(isStore && mutant === 'store_left_out') ? [index] : [],
      );
      if (mutant === 'prepared_first') look.names = listPrepared(state, look.names);
      look.phase = 'read virtual ids';
      return;
    case 'read virtual ids':
      look.virtual = alive(state);
      look.phase = 'read prepared transactions';
      return;
    case 'read prepared transactions':
      concludeLook(state, mutant);
      return;
    case 'read the position':
      look.position = state.log.length;
      look.phase = mutant === 'position_first' ? 'read sessions' : 'wait for the replay';
      return;
    case 'wait for the replay':
      look.phase = 'take the snapshot';
      return;
    case 'take the snapshot': {
      const visible = state.log.slice(0, state.replayed ?? state.log.length);
      look.rows = visible.flatMap(({ id, isOld }) => (isOld ? [id] : []));
      look.phase = look.isBeyondBound && (look.names ?? []).length > 0 ? 'unsettled' : 'settled';
      return;
    }
    case 'wait in the outbox':
      look.names = look.saved;
      look.phase = 'read sessions';
      return;
    case 'unsettled':
      // A look-back: another look, then rows are read again.
      look.phase = 'read sessions';
      return;
    case 'settled':
      return;
  }
}

/** Whether the export can take its next step: it waits for the clock and for the replay. */
export function canAdvance({ look, isPast, replayed }: State, mutant: Mutant | null): boolean {
  switch (look.phase) {
    case 'wait for the clock':
      return isPast || mutant === 'our_clock';
    case 'wait for the replay':
      return replayed === null || replayed >= look.position || mutant === 'no_wait_for_replay';
    case 'settled':
      return false;
    default:
      return true;
  }
}

const looking: readonly Phase[] = [
  'read sessions',
  'read virtual ids',
  'read prepared transactions',
  'read the position',
  'wait for the replay',
];

/** Whether the run can go back now: between two looks. */
export function canGoBack({ look: { phase, names } }: State, mutant: Mutant | null): boolean {
  if (mutant === 'saved_mid_look' && phase === 'read prepared transactions') return true;
  return phase === 'read sessions' && names !== null;
}

/** The run goes back to the outbox, with the names of what is pending. */
export function goBack(state: State, mutant: Mutant | null): void {
  const { look } = state;
  look.savedBefore = look.saved;
  look.saved =
    mutant === 'nothing_saved' ? [] : (look.names ?? namesOf({ ...state, prepared: [] }, mutant));
  forget(state);
}

/** Whether its worker can die in the middle of a look. */
export const canDie = ({ look: { phase } }: State): boolean => looking.includes(phase);

/** What a worker had found so far is gone. The run waits in the outbox as it was. */
export function forget({ look }: State): void {
  Object.assign(look, {
    names: null,
    virtual: [],
    sessions: [],
    nextId: 0,
    phase: 'wait in the outbox',
  });
}

/** A session to our own tables counts only with a message from before the end. */
function alive({ sessions, look }: State): Transaction[] {
  return sessions.flatMap(({ message, isStore }, index) =>
    message?.transaction && (!isStore || look.sessions.includes(index))
      ? [message.transaction]
      : [],
  );
}

function listPrepared({ prepared }: State, names: readonly Name[] | null): readonly Name[] {
  return names ?? prepared.map(({ id }) => ({ kind: 'prepared', id }) as const);
}

/** The third read: what is left of the names, and what that means. */
function concludeLook(state: State, mutant: Mutant | null): void {
  const { look, prepared, replayed } = state;
  const first = look.names === null || (mutant === 'prepared_first' && look.position < 0);
  const names = first ? namesOf(state, mutant) : stillPending(state, look.names ?? [], mutant);
  if (mutant === 'prepared_first') look.position = 0;
  look.names = names;
  const isBlocked = mutant === 'any_prepared' && look.isBeyondBound && prepared.length > 0;
  if (isBlocked && names.length === 0) {
    throw new Violation('S2', 'the look-back waits, and nothing that it waits for is left');
  }
  const isDone = names.length === 0;
  if (isDone || look.isBeyondBound) {
    const isStandby = replayed !== null && mutant !== 'position_first';
    look.phase = isDone && isStandby ? 'read the position' : 'take the snapshot';
  } else look.phase = 'read sessions';
  look.virtual = [];
  look.sessions = [];
}

/** All that may still add rows to the interval, at the first look. */
function namesOf({ look, prepared }: State, mutant: Mutant | null): readonly Name[] {
  const from = look.nextId;
  const ids = mutant === 'prepared_first' ? (look.names ?? []) : [];
  return [
    ...ids,
    ...look.virtual.map(({ virtualId, id }) => ({ kind: 'virtual', virtualId, id, from }) as const),
    ...(mutant === 'virtual_ids_only'
      ? []
      : look.sessions.map((session) => ({ kind: 'session', session, from }) as const)),
    ...(mutant === 'prepared_first'
      ? []
      : prepared.map(({ id }) => ({ kind: 'prepared', id }) as const)),
  ];
}

/**
 * Something that is gone may have left a prepared transaction: that of its transaction id, or, if none
 * was known, any that got its id since. No other transaction is ever added.
 */
function stillPending(
  { look, prepared }: State,
  names: readonly Name[],
  mutant: Mutant | null,
): readonly Name[] {
  const heirs = (isHeir: (id: number) => boolean): Name[] =>
    mutant === 'no_heirs'
      ? []
      : prepared.flatMap(({ id }) => (isHeir(id) ? [{ kind: 'prepared', id } as const] : []));
  const left = names.flatMap((name): Name[] => {
    switch (name.kind) {
      case 'virtual': {
        const live = look.virtual.find(({ virtualId }) => virtualId === name.virtualId);
        if (live) return [name.id === null ? { ...name, id: live.id } : name];
        return heirs((id) => (name.id === null ? id >= name.from : id === name.id));
      }
      case 'session':
        if (look.sessions.includes(name.session)) return [name];
        return mutant === 'sessions_without_heirs' ? [] : heirs((id) => id >= name.from);
      default:
        return prepared.some(({ id }) => id === name.id) ? [name] : [];
    }
  });
  const texts = new Map(left.map((name) => [JSON.stringify(name), name]));
  return [...texts.keys()].sort().flatMap((text) => texts.get(text) ?? []);
}
