/** What a checker reads. Paths are those below the place of the export. */
export interface Place {
  /** All objects; null if they cannot be listed. */
  readonly names: readonly string[] | null;
  /** Null: there is no such object. */
  open(path: string): StoredObject | null | Promise<StoredObject | null>;
}

export interface StoredObject {
  readonly size: number;
  readonly body: ReadableStream<Uint8Array>;
}

export interface CheckOptions {
  /** A date such as `2026-11-30`: objects of intervals that end before it are left out. */
  readonly since?: string;
  /** Public keys or fingerprints, 64 digits each. */
  readonly keys?: readonly string[];
  /** Number and digest of a statement, with a colon between them. */
  readonly head?: string;
  /** Reads each file: its SHA-256, and its rows where the format allows it. Needs Node. */
  readonly deep?: boolean;
  /** The bytes of a certificate of erasure or of a delivery record. */
  readonly document?: Uint8Array;
}

export function check(
  place: Place,
  options?: CheckOptions,
): Promise<{ readonly exit: 0 | 1 | 2; readonly lines: readonly string[] }>;
