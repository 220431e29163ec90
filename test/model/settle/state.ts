/** A source around the end of one interval: sessions that write, a settling export, maybe a standby. */

/** One transaction. Its row, if it writes one, has the `now()` of the message that it is in. */
export interface Transaction {
  /** Its virtual id; each is used once. */
  readonly virtualId: number;
  /** Null before it has written. */
  readonly id: number | null;
}

export interface Session {
  /** The message it works on; null between messages. */
  message: {
    /** Whether it came before the interval's end: then so does `now()` in all its transactions. */
    readonly isOld: boolean;
    /** Transactions that it may still begin. */
    left: number;
    transaction: Transaction | null;
  } | null;
  /** Messages that it may still get. */
  left: number;
  /** Whether it is marked as one to our own tables. */
  readonly isStore: boolean;
}

export interface Prepared {
  readonly id: number;
  readonly isOld: boolean;
}

/** What an interval still waits for, by name. */
export type Name =
  | {
      readonly kind: 'virtual';
      readonly virtualId: number;
      readonly id: number | null;
      readonly from: number;
    }
  | { readonly kind: 'session'; readonly session: number; readonly from: number }
  | { readonly kind: 'prepared'; readonly id: number };

/** The steps of settling in docs/internals/guarantees.md. A look is three reads, one after the other. */
export type Phase =
  | 'wait for the clock'
  | 'read virtual ids'
  | 'read sessions'
  | 'read prepared transactions'
  | 'read the position'
  | 'wait for the replay'
  | 'take the snapshot'
  | 'wait in the outbox'
  | 'settled'
  | 'unsettled';

export interface Export {
  phase: Phase;
  /** Null before the first look. */
  names: readonly Name[] | null;
  /** What the reads of this look have found so far. */
  virtual: readonly Transaction[];
  sessions: readonly number[];
  nextId: number;
  /** The names that the outbox has; null before the run went back. */
  saved: readonly Name[] | null;
  /** The names that it had before. */
  savedBefore: readonly Name[] | null;
  position: number;
  isBeyondBound: boolean;
  /** Rows of the interval in the snapshot. */
  rows: readonly number[];
}

export interface State {
  /** Whether the source's clock has passed the interval's end. */
  isPast: boolean;
  sessions: Session[];
  prepared: Prepared[];
  nextVirtualId: number;
  nextId: number;
  /** Committed transactions in their order; the rows of the interval are those of old ones. */
  log: { readonly id: number; readonly isOld: boolean }[];
  /** How much of the log the standby has replayed; null: the export reads the primary. */
  replayed: number | null;
  look: Export;
}

export function copyOf(state: State): State {
  return {
    ...state,
    sessions: state.sessions.map((session) => ({
      ...session,
      message: session.message === null ? null : { ...session.message },
    })),
    prepared: [...state.prepared],
    log: [...state.log],
    look: { ...state.look },
  };
}
