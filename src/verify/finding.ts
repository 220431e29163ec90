/** The promises of the README, by their numbers. */
export type Invariant = 'I1' | 'I2' | 'I3' | 'I4' | 'I5';

export const invariantTitles: Readonly<Record<Invariant, string>> = {
  I1: 'no gap: the completed intervals tile up to the high-water mark',
  I2: 'no overlap: no instant is in two current intervals',
  I3: 'exactly once: each source row is in exactly one current file',
  I4: 'no lies: each manifest entry exists with its bytes, checksum and rows; nothing else is there',
  I5: 'one terminal state per run, its counts agree',
};

/** Makes the findings of one export. */
export const breachesOf =
  (exportId: string) =>
  (invariant: Invariant, detail: string): Finding => ({ invariant, exportId, detail });

/** An invariant that is broken. */
export interface Finding {
  readonly invariant: Invariant;
  readonly exportId: string;
  /** What is wrong, with the interval, the key or the rows. */
  readonly detail: string;
}
