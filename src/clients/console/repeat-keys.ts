export interface RepeatKey {
  readonly key: string;
  /** To be called once the answer is there. */
  readonly forget: () => void;
}

/** Later the reader means a new change, although it is the same. */
const lifetimeMs = 5 * 60_000;

/** @param clock milliseconds */
export function createRepeatKeys(makeKey: () => string, clock: () => number) {
  const open = new Map<string, { readonly key: string; readonly since: number }>();
  return {
    /** If a reader repeats a change whose answer did not arrive, it has the same key, and takes effect once. */
    of(path: string, body: string): RepeatKey {
      const now = clock();
      for (const [change, { since }] of open) if (now - since > lifetimeMs) open.delete(change);
      const change = `${path} ${body}`;
      const entry = open.get(change) ?? { key: makeKey(), since: now };
      open.set(change, entry);
      const forget = () => {
        if (open.get(change) === entry) open.delete(change);
      };
      return { key: entry.key, forget };
    },
    /** The bodies of changes may have secrets. */
    clear: () => open.clear(),
  };
}

// `crypto.randomUUID` exists only over https.
const randomKey = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, '0'),
  ).join('');

export const repeatKeys = createRepeatKeys(randomKey, () => performance.now());
