/** Calls come in order, never concurrently; `write` takes ownership of its bytes. Equal chunks give equal bytes. */
export interface StreamCodec {
  /** @returns the bytes of the file that became ready, in file order; may be none */
  write(bytes: Buffer): Promise<readonly Uint8Array[]>;
  /** Waits for the bytes of all that was written. More may follow; how they are cut changes them. */
  flush(): Promise<readonly Uint8Array[]>;
  /** Nothing may be called afterwards. */
  finish(): Promise<readonly Uint8Array[]>;
  /** Uncompressed bytes taken but not returned yet. */
  readonly heldBytes: number;
}

export function openPlain(): StreamCodec {
  return {
    heldBytes: 0,
    write: async (bytes) => [bytes],
    flush: async () => [],
    finish: async () => [],
  };
}
