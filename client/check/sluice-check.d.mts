export interface CheckOptions {
  /** A date such as `2026-11-30`: objects of intervals that end before it are left out. */
  readonly since?: string;
  /** Public keys or fingerprints, 64 digits each. */
  readonly keys?: readonly string[];
  readonly head?: { readonly number: number; readonly digest: string };
  /** Reads each file: its SHA-256, and its rows where the format allows it. */
  readonly deep?: boolean;
  /** The bytes of a certificate of erasure or of a delivery record. */
  readonly document?: Uint8Array;
  /** Without it, a file is held in memory. */
  readonly hasher?: () => { update(bytes: Uint8Array): void; digest(encoding: 'hex'): string };
}

export interface ReadObject {
  readonly size: number | null;
  readonly body: ReadableStream<Uint8Array> | null;
}

/** `readObject` gives null for an object that is missing; `listObjects` gives null if it cannot list. */
export function check(
  readObject: (
    path: string,
    expected: { readonly bytes: number; readonly onlySize?: boolean },
  ) => Promise<ReadObject | null>,
  listObjects: () => readonly string[] | null | Promise<readonly string[] | null>,
  options?: CheckOptions,
): Promise<{ readonly exit: 0 | 1 | 2; readonly lines: readonly string[] }>;
