/**
 * Names what an interval still waits for. The names are kept with the interval's receipt, so that a
 * later look-back waits for these transactions and for no others:
 *
 * - `3/45:1234`: virtual id 3/45, whose transaction id is 1234
 * - `3/45>1230`: virtual id 3/45, which had no transaction id when the ids of all others that had completed or were prepared were below 1230
 * - `prepared:1234`: a prepared transaction
 * - `session:17:1700000000000000`: process 17, started then, has a transaction from before the end
 * - `session:17:1700000000000000>1230`: it is at work on a message from before the end; 1230 was the next
 *   transaction id
 * - `replay:0/1B9B6D8@1763960000.123`: the standby must replay up to here, of the primary that was started then; all transactions on the primary have ended
 * - `unseen:1700000000000`: other roles' times are hidden; the source's clock must pass this time
 * - `unlisted`: nothing is known yet (the source's clock was behind the end)
 * - `standby`: the source is a standby without its primary
 * - `at:1763960000.123`: the other names are those of the server that was started then
 */
export type PendingName = string;

export const unlisted: PendingName = 'unlisted';
export const standby: PendingName = 'standby';
export const replayOf = (lsn: string): PendingName => `replay:${lsn}`;
export const namedAt = (serverStart: string): PendingName => `at:${serverStart}`;
export const unseenUntil = (instant: number): PendingName => `unseen:${Math.ceil(instant)}`;

/** It stays the same as long as the transaction or session lives. */
export function baseOf(name: PendingName): string {
  return /^\d+\/\d+/.exec(name)?.[0] ?? name.split('>')[0] ?? name;
}

/** Transaction ids are full ids, with the epoch. */
export interface Live {
  readonly nowMs: number;
  /** The next transaction id, read before everything else here. */
  readonly nextId: bigint;
  /** Live virtual ids, with their transaction id; null before they write. */
  readonly virtual: ReadonlyMap<string, bigint | null>;
  /**
   * Of sessions that may have work from before the end. `isAtWork`: in that message still, which may have more
   * transactions. `isOlder`: they show that it is from before the end.
   */
  readonly sessions: ReadonlyMap<
    PendingName,
    { readonly isAtWork: boolean; readonly isOlder: boolean }
  >;
  /** True if there are sessions whose times this role cannot see. */
  readonly hasUnseen: boolean;
  /** Read last: a transaction becomes prepared before its virtual id ends. */
  readonly prepared: ReadonlyMap<bigint, { readonly preparedAtMs: number }>;
}

const ofPrepared = (id: bigint): PendingName => `prepared:${id}`;

function ofVirtual(virtualId: string, id: bigint | null, nextId: bigint): PendingName {
  return id === null ? `${virtualId}>${nextId}` : `${virtualId}:${id}`;
}

/** All that may add rows. A transaction that was prepared before the start cannot: its `now()` is earlier. */
export function namesOf(live: Live, startMs: number): readonly PendingName[] {
  return [
    ...[...live.virtual].map(([virtualId, id]) => ofVirtual(virtualId, id, live.nextId)),
    ...[...live.prepared]
      .filter(([, { preparedAtMs }]) => preparedAtMs >= startMs)
      .map(([id]) => ofPrepared(id)),
  ];
}

/** With the next transaction id if they may prepare a transaction. */
export function sessionsOf({ sessions, nextId }: Live): readonly PendingName[] {
  return [...sessions].map(([name, { isAtWork }]) => (isAtWork ? `${name}>${nextId}` : name));
}

/**
 * An ended one may be a prepared transaction now: that with its transaction id or, without one, any that got its id
 * since. Marks (`replay:` and the like) stay.
 */
export function stillPending(pending: readonly PendingName[], live: Live): readonly PendingName[] {
  const remaining = pending.flatMap((name): readonly PendingName[] => {
    const virtual = /^(\d+\/\d+)([:>])(\d+)$/.exec(name);
    if (virtual) {
      const [, virtualId = '', kind, number = '0'] = virtual;
      const id = live.virtual.get(virtualId);
      if (id !== undefined) return [ofVirtual(virtualId, id, live.nextId)];
      const isHeir = (candidate: bigint) =>
        kind === ':' ? sameId(candidate, BigInt(number)) : candidate >= BigInt(number);
      return [...live.prepared.keys()].filter(isHeir).map(ofPrepared);
    }
    const prepared = /^prepared:(\d+)$/.exec(name);
    if (prepared) {
      const id = BigInt(prepared[1] ?? '0');
      return [...live.prepared.keys()].some((other) => sameId(other, id)) ? [name] : [];
    }
    const session = /^(session:\d+:[^>]*)(?:>(\d+))?$/.exec(name);
    if (session) {
      const [, base = '', from] = session;
      if (live.sessions.has(base)) return [name];
      // A later transaction of the same message may have been prepared without a visible virtual id.
      if (from === undefined) return [];
      return [...live.prepared.keys()].filter((id) => id >= BigInt(from)).map(ofPrepared);
    }
    return [name];
  });
  return [...new Set(remaining)];
}

const half = 0xffff_ffffn;

/** Some views show only the lower half of an id. */
export function sameId(one: bigint, other: bigint): boolean {
  return (one & half) === (other & half);
}

/** The full id with this lower half that is not newer than `nextId`. */
export function fullId(lower: string, nextId: bigint): bigint {
  const newest = nextId - 1n;
  const age = (newest - BigInt(lower)) & half;
  return newest - age;
}

export function markValue(
  pending: readonly PendingName[],
  kind: 'replay' | 'unseen' | 'at',
): string | null {
  const mark = pending.find((name) => name.startsWith(`${kind}:`));
  return mark?.slice(kind.length + 1) ?? null;
}

export function isTransaction(name: PendingName): boolean {
  return /^(\d|prepared:|session:)/.test(name);
}
