export type Invariant = 'I1' | 'I2' | 'I3' | 'I4' | 'I5' | 'I11';

export const invariantTitles: Readonly<Record<Invariant, string>> = {
  I1: 'no gap: the completed intervals tile up to the high-water mark',
  I2: 'no overlap: no instant is in two current intervals',
  I3: 'exactly once: each source row is in exactly one current file',
  I4: 'no lies: each manifest entry exists with its bytes, checksum and rows; nothing else is there',
  I5: 'one terminal state per run, its counts agree',
  I11: 'changes: each element continues the one before it, and all together give the rows of the source',
};

/** The choices of a backfill if rows that were delivered are no longer in the source. */
const harmless = 'It changes nothing if it would remove rows that were delivered.';

/** The remedies of a broken promise. None of them removes rows that were delivered. */
export const remedies: Readonly<Record<Invariant, string>> = {
  I1: 'Export the interval with a backfill of its range, or accept it as it is.',
  I2: 'Do not read the older interval, and report this with the id of the export.',
  I3: `Report this with the id of the export. A backfill of the interval writes its files again. ${harmless}`,
  I4: `Make sure that nothing else writes to this prefix. If files are missing or damaged, restore them from a copy, or start a backfill of the interval: it writes the files again. ${harmless}`,
  I5: 'Report this with the id of the run; the files are not affected.',
  I11: 'Raise new_base of the export: the next element then has all rows, and replaces all before it. Report this with the id of the export.',
};

export interface Finding {
  readonly invariant: Invariant;
  readonly exportId: string;
  /** The fault, with the interval, the key or the rows. It quotes what others wrote: escape it. */
  readonly detail: string;
  /** Absent: that of the invariant. */
  readonly remedy?: string;
}

/** A bucket may name anything: longer texts are cut. */
const maxDetail = 1_000;

export const breachesOf =
  (exportId: string) =>
  (invariant: Invariant, detail: string, remedy?: string): Finding => ({
    invariant,
    exportId,
    detail: detail.length > maxDetail ? `${detail.slice(0, maxDetail)} …` : detail,
    ...(remedy === undefined ? {} : { remedy }),
  });

/** `1 file`, `3 files` */
export function counted(count: number, what: string, many = `${what}s`): string {
  return `${count} ${count === 1 ? what : many}`;
}
