/**
 * Compresses one file as a stream. Calls come in order, never at once; the bytes given to `write`
 * belong to the codec from then on. Equal bytes in equal chunks give equal bytes.
 */
export interface StreamCodec {
  /** @returns the bytes of the file that became ready, in file order; maybe none yet. */
  write(bytes: Buffer): Promise<readonly Uint8Array[]>;
  /** The rest of the file. The codec is spent afterwards. */
  finish(): Promise<readonly Uint8Array[]>;
  /** Uncompressed bytes taken and not yet given back. */
  readonly heldBytes: number;
}

/** No compression: every chunk comes back as it is. */
export function openPlain(): StreamCodec {
  return {
    heldBytes: 0,
    write: async (bytes) => [bytes],
    finish: async () => [],
  };
}
