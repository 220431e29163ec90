/** A statement that the target has: its number, and the SHA-256 of its bytes. */
export interface Cursor {
  readonly number: number;
  readonly sha256: string;
}

export interface Interval {
  readonly start: string;
  readonly end: string;
}

export interface ReaderOptions {
  /**
   * The bytes of an object; null if there is none. `key` is its key in the bucket. `place` is where an interval was delivered,
   * such as `s3://bucket/events`; it is null for keys and statements.
   */
  readonly readObject: (key: string, place: string | null) => Promise<Uint8Array | null>;
  /** The part of the export's prefix before its first placeholder, the folder of `_sluice`: `events`. */
  readonly prefix?: string;
  /** Public keys or fingerprints, 64 digits each. The newest statement must be signed by one, or by a key that follows from it. */
  readonly keys?: readonly string[];
  /** Takes the keys in the bucket as they are. A person who can write the bucket can then replace everything. */
  readonly trustBucket?: boolean;
  /** What the target has; null at first. */
  readonly cursor?: Cursor | null;
  /** The `id` of each file of an interval that the target holds rows of. Ask the transaction that applies the changes. */
  readonly heldFiles: (interval: Interval) => Promise<readonly string[]> | readonly string[];
}

export interface DataFile {
  /** Its key and digest: a file with other bytes is another file. */
  readonly id: string;
  readonly key: string;
  readonly place: string;
  readonly format: string;
  readonly compression: string | null;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
  /** Its bytes, if they have the size and the SHA-256 that the manifest says. */
  readonly read: () => Promise<Uint8Array>;
}

/** An interval whose rows changed. Remove the rows of `remove`, and add those of `add`, in one transaction. */
export interface IntervalChange extends Interval {
  readonly type: 'interval';
  /** Why, oldest first: `delivered`, `supplement`, `remade`, `removed`, `erased`, `moved`, … */
  readonly kinds: readonly string[];
  readonly state: string;
  /** The rows that the interval has now. */
  readonly rows: number;
  /**
   * `append`: its rows come beside those of other intervals. `snapshot`: they are the whole table, so those of earlier intervals
   * are older. `changes`: `element` says in which order to apply them. Null if it has no files.
   */
  readonly mode: 'append' | 'snapshot' | 'changes' | null;
  /** As the manifest has it: its number, and the element that it follows (null: it replaces all rows). */
  readonly element: { readonly number: number; readonly follows: number | null } | null;
  readonly add: readonly DataFile[];
  /** The `id` of each file that was replaced, or whose rows were removed. */
  readonly remove: readonly string[];
}

/** Everything up to a statement was given. Store the cursor in the same transaction. */
export interface CursorChange {
  readonly type: 'cursor';
  readonly cursor: Cursor;
  /** Chains that began since the last cursor: the database of Sluice was restored, or a statement was replaced. */
  readonly chains: readonly { readonly number: number; readonly reason: string }[];
  /** Intervals that changed after the newest statement. The next statement has them. */
  readonly waiting: number;
}

/** Something in the bucket is not as it was signed, or is missing. Nothing of it was given. */
export class ReceiptError extends Error {}

/** What is new since the cursor, in the order of the statements. It gives nothing if there is no new statement. */
export function readChanges(options: ReaderOptions): AsyncGenerator<IntervalChange | CursorChange>;
