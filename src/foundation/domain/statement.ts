/** The parts of a statement, as docs/receipts.md describes them. All is canonical JSON. */

export interface IntervalState {
  readonly state: 'delivered' | 'empty' | 'accepted' | 'open' | 'not_due';
  readonly rows: number;
  readonly bytes: number;
  readonly files: number;
}

export interface DeliveredState extends IntervalState {
  readonly state: 'delivered' | 'empty';
  readonly place: string;
  readonly manifest: { readonly key: string; readonly sha256: string | null } | null;
  readonly generation: number;
  readonly key_digest: string | null;
  readonly settled: boolean;
  readonly pending: readonly string[];
}

export type BookingKind =
  | 'delivered'
  | 'empty'
  | 'open'
  | 'not_due'
  | 'accepted'
  | 'supplement'
  | 'remade'
  | 'removed'
  | 'erased'
  | 'moved';

export interface Booking {
  readonly kind: BookingKind;
  readonly start: string;
  readonly end: string;
  readonly at: string;
  readonly before: IntervalState | DeliveredState | null;
  readonly after: IntervalState | DeliveredState;
  readonly note: Readonly<Record<string, unknown>> | null;
}

export interface Sum {
  readonly rows: number;
  readonly bytes: number;
  readonly files: number;
}

/** The acknowledgement of a receiver. `rows` are those that it holds after the statement. */
export interface Acknowledgement {
  readonly number: number;
  readonly sha256: string;
  readonly rows: number;
  readonly at: string;
}

export type ChainBeginning = 'first' | 'restored' | 'replaced';

/** The result of a look at the place. */
export interface Reconciliation {
  readonly state: 'listed' | 'not_listed';
  /** When the list began; null: it was not listed. */
  readonly at: string | null;
  readonly reason: string | null;
  readonly missing: readonly string[];
  /** Named objects of another size. */
  readonly changed: readonly string[];
  /** Objects that nothing names. */
  readonly stray: readonly string[];
  readonly more: number;
  /** Which keys were listed, if not all: those after `from`, up to `to`. Null: from the start, to the end, or the key is not ours to tell. */
  readonly part?: { readonly from: string | null; readonly to: string | null };
}

export const cannotReconcile = (reason: string): Reconciliation => ({
  ...{ state: 'not_listed', at: null, reason, missing: [], changed: [], stray: [], more: 0 },
});

export interface StatementPlace {
  readonly type: string;
  readonly bucket: string | null;
  readonly prefix: string;
}

export const nameOfPlace = ({ type, bucket, prefix }: StatementPlace): string =>
  `${type.toLowerCase()}://${[bucket, prefix].filter(Boolean).join('/')}`;

export const noSum: Sum = { rows: 0, bytes: 0, files: 0 };

export const addSum = (a: Sum, b: Sum, sign = 1): Sum => ({
  rows: a.rows + sign * b.rows,
  bytes: a.bytes + sign * b.bytes,
  files: a.files + sign * b.files,
});

export type Balance = Readonly<
  Record<'opening' | 'delivered' | 'removed' | 'erased' | 'closing', Sum>
>;

/** The sums of a statement. They add up whatever the bookings are. */
export function balanceOf(opening: Sum, bookings: readonly Booking[]): Balance {
  let [delivered, removed, erased] = [noSum, noSum, noSum];
  for (const { kind, before, after } of bookings) {
    const more = addSum(after, before ?? noSum, -1);
    if (kind === 'removed') removed = addSum(removed, more, -1);
    else if (kind === 'erased') erased = addSum(erased, more, -1);
    else delivered = addSum(delivered, more);
  }
  const closing = addSum(addSum(addSum(opening, delivered), removed, -1), erased, -1);
  return { opening, delivered, removed, erased, closing };
}
