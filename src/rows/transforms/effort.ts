/** Values that one step may look at in one row: names of its settings times values of the row. */
const maxLookups = 200_000;

/** Members and elements that one step may take out of the JSON of one row. Each is an object of the heap. */
const maxMade = 200_000;

/** Characters of nested JSON that one step may pass over in one row; those of texts do not count. Some tenths of a second. */
const maxPassed = 20_000_000;

let lookups = 0;
let madeCount = 0;
let passed = 0;
let isLimited = false;

/** Steps are synchronous, so one count serves all. */
export function withEffort<Result>(step: () => Result): Result {
  [lookups, madeCount, passed, isLimited] = [0, 0, 0, true];
  try {
    return step();
  } finally {
    isLimited = false;
  }
}

/**
 * Without it a row of some MiB with millions of members would keep the process from all others for seconds.
 * @throws RowError if it is too much for one row
 */
export function spendMade(count: number): void {
  madeCount += count;
  if (isLimited && madeCount > maxMade) throw tooMuch();
}

export function spendPassed(count: number): void {
  passed += count;
  if (isLimited && passed > maxPassed) throw tooMuch();
}

const tooMuch = () => new RowError('The row has more JSON than a step may read.');

/** Else a short row with a long list would take minutes in a step with many names. @throws RowError if it is too much */
export function spendEffort(count: number): void {
  lookups += count;
  if (lookups > maxLookups) {
    throw new RowError('The row has too many values for the names of this step.');
  }
}

/** The reason names places and holds none of the row's values. */
export class RowError extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = 'RowError';
  }
}
