import { isDeepStrictEqual } from 'node:util';
import { stemsOfKey } from '../../../foundation/domain/object-keys.ts';
import type {
  Booking,
  BookingKind,
  DeliveredState,
  IntervalState,
} from '../../../foundation/domain/statement.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import type {
  BookedInterval,
  BookedReceipt,
  UnbookedInterval,
} from '../../../state/store/intervals/statement-changes.ts';

export interface BookingFacts {
  /** @param before its name when its manifest was booked; null: it is a new one */
  placeOf(version: number, key: string | null, before: string | null): string;
  acceptance(interval: UnbookedInterval): Promise<Readonly<Record<string, unknown>>>;
  removal(runId: string): Promise<Readonly<Record<string, unknown>>>;
}

export interface Booked {
  readonly bookings: readonly Booking[];
  readonly intervals: readonly BookedInterval[];
  readonly end: Timestamp;
}

type Any = IntervalState | DeliveredState;

const nothing = { rows: 0, bytes: 0, files: 0 } as const;
const isDelivered = (state: Any | null): state is DeliveredState =>
  state?.state === 'delivered' || state?.state === 'empty';

/**
 * Books what has become of intervals since the newest statement.
 *
 * @param unbooked in order
 * @param period the start of the chain's first period, and the end of its newest one
 */
export async function bookIntervals(
  unbooked: readonly UnbookedInterval[],
  period: { readonly began: Timestamp; readonly end: Timestamp },
  facts: BookingFacts,
): Promise<Booked> {
  const news: Booking[] = [];
  const later: Booking[] = [];
  const intervals: BookedInterval[] = [];
  let { end } = period;
  const book = async (interval: UnbookedInterval) => {
    const bookings = await bookingsOf(interval, facts);
    for (const booking of bookings) (booking.before === null ? news : later).push(booking);
    const { start, before, mark } = interval;
    const state = bookings.at(-1)?.after ?? before;
    if (state) intervals.push({ start, end: interval.end, state, mark });
  };
  for (const interval of unbooked) {
    const isOfPeriod = interval.before === null && interval.start >= period.began;
    if (isOfPeriod && interval.start < end) continue;
    // Only if nothing was stated for as long as ticks are kept.
    if (isOfPeriod && interval.start > end) await book(unknownOf(end, interval.start));
    await book(interval);
    if (isOfPeriod) end = interval.end;
  }
  later.sort((a, b) => (a.at < b.at ? -1 : Number(a.at > b.at)));
  return { bookings: [...news, ...later], intervals, end };
}

const unknownOf = (start: Timestamp, end: Timestamp): UnbookedInterval => ({
  ...{ start, end, before: null, superseded: [], receipt: null, acceptedAt: null },
  ...{ supersededBy: null, fate: 'no_record', isOpen: true, mark: 'open' },
});

async function bookingsOf(interval: UnbookedInterval, facts: BookingFacts): Promise<Booking[]> {
  const { start, end, superseded, receipt } = interval;
  const bookings: Booking[] = [];
  let before = interval.before;
  let digests: readonly string[] | null = null;
  const add = (kind: BookingKind, at: Timestamp, after: Any, note: Booking['note']) => {
    bookings.push({ kind, start, end, at, before, after, note });
    before = after;
  };
  const commits = [...superseded, ...(receipt ? [receipt] : [])];
  for (const commit of commits) {
    const after = stateOf(commit, before, facts);
    if (!isDeepStrictEqual(after, before)) {
      const [kind, note] = await reasonOf(commit, before, after, digests, facts);
      add(kind, commit.made?.at ?? commit.at, after, note);
    }
    digests = commit.digests;
  }
  if (receipt !== null) return bookings;
  const { acceptedAt, supersededBy, isOpen, fate } = interval;
  const state = acceptedAt !== null ? 'accepted' : isOpen ? 'open' : 'not_due';
  const after: IntervalState = { state, ...nothing };
  if (isDeepStrictEqual(after, before)) return bookings;
  if (acceptedAt !== null) {
    const reason = `superseded by the interval that ends at ${supersededBy}`;
    const note = supersededBy ? { by: 'rule', reason } : await facts.acceptance(interval);
    add(state, acceptedAt, after, note);
  } else add(state, end, after, fate === null || fate === 'ran' ? null : { reason: fate });
  return bookings;
}

function stateOf(receipt: BookedReceipt, before: Any | null, facts: BookingFacts): DeliveredState {
  const { manifest: key, sha256, version, generation, rows, bytes, files } = receipt;
  const manifest = key === null ? null : { key, sha256 };
  const delivery = { manifest, generation, rows, bytes, files };
  const isSame = isDelivered(before) && isDeepStrictEqual({ ...before, ...delivery }, before);
  // Folders of values are no part of the place, and stay in no statement.
  const stem = receipt.key && (stemsOfKey(receipt.key).at(-1) ?? null);
  return {
    state: rows === 0 ? 'empty' : 'delivered',
    ...delivery,
    place: facts.placeOf(version, key ?? stem, isSame ? before.place : null),
    key_digest: receipt.digest,
    settled: receipt.settled,
    pending: receipt.settled ? [] : receipt.pending,
  };
}

async function reasonOf(
  { made, digests }: BookedReceipt,
  before: Any | null,
  after: DeliveredState,
  digestsBefore: readonly string[] | null,
  facts: BookingFacts,
): Promise<readonly [BookingKind, Booking['note']]> {
  if (!isDelivered(before)) return [after.state, null];
  const isRemade = !isDeepStrictEqual(filesOf(before), filesOf(after));
  if (isRemade && made?.purpose === 'erase') {
    const files = pairsOf(digestsBefore ?? [], digests ?? []);
    return ['erased', { request: made.run, asked_at: made.asked_at ?? made.at, files }];
  }
  if (isRemade && made?.purpose === 'supplement') return ['supplement', null];
  if (isRemade && made?.purpose === 'expire') {
    return ['removed', { by: 'rule', request: 'keep_snapshots', shown: before.rows - after.rows }];
  }
  if (isRemade && made?.drops) return ['removed', await facts.removal(made.run)];
  if (before.place !== after.place) return ['moved', null];
  return [isRemade ? 'remade' : after.state, null];
}

const filesOf = ({ manifest, generation, rows, bytes, files, key_digest }: DeliveredState) => ({
  ...{ manifest, generation, rows, bytes, files, key_digest },
});

/** The files that an erasure has replaced, with those that it made: both keep the order of the rows. */
function pairsOf(before: readonly string[], after: readonly string[]) {
  const [old, made] = [new Set(before), new Set(after)];
  const gone = before.filter((digest) => !made.has(digest));
  const come = after.filter((digest) => !old.has(digest));
  return gone.map((digest, index) => ({
    before: digest,
    // Fewer were made if a file had no other rows: then it is not known which replaces which.
    after: gone.length === come.length ? (come[index] ?? null) : null,
  }));
}
