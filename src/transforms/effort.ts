import { RowError } from './row-error.ts';

/** Values that one step may look at in one row: names of its settings times values of the row. */
const maxLookups = 200_000;

let lookups = 0;

/** A step begins with a row. Steps are synchronous, so one count serves all. */
export function beginEffort(): void {
  lookups = 0;
}

/**
 * Counts what a step looks at. Else a short row with a long list would take minutes in a step with many
 * names.
 *
 * @throws RowError if it is too much for one row
 */
export function spendEffort(count: number): void {
  lookups += count;
  if (lookups > maxLookups) {
    throw new RowError('The row has too many values for the names of this step.');
  }
}
