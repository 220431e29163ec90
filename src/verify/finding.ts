/** The promises of the README, by their numbers. */
export type Invariant = 'I1' | 'I2' | 'I3' | 'I4' | 'I5';

export const invariantTitles: Readonly<Record<Invariant, string>> = {
  I1: 'no gap: the completed intervals tile up to the high-water mark',
  I2: 'no overlap: no instant is in two current intervals',
  I3: 'exactly once: each source row is in exactly one current file',
  I4: 'no lies: each manifest entry exists with its bytes, checksum and rows; nothing else is there',
  I5: 'one terminal state per run, its counts agree',
};

/** What an operator can do about a broken promise. */
export const remedies: Readonly<Record<Invariant, string>> = {
  I1: 'Export the interval with a backfill of its range, or accept it as it is.',
  I2: 'Do not read the older interval, and report this with the id of the export.',
  I3: 'Start a backfill of the interval: it reads the source again and replaces the files.',
  I4: 'Make sure that nothing else writes to this prefix, then start a backfill of the interval: it writes the files again.',
  I5: 'Report this with the id of the run; the files are not affected.',
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
