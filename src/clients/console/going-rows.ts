import type { Backfill, BackfillPreview } from './api-types.ts';
import { formatCount, plural } from './numbers.ts';

export type Totals = BackfillPreview['totals'];

/** The fate of the delivered rows of a backfill's intervals, in one or two sentences. */
export function describeGoing(
  { delivered_rows: delivered, rows_now: now, would_go: rows, would_go_is: is }: Totals,
  missingRows: Backfill['missing_rows'],
): string {
  const before = `${plural(delivered, 'row')} ${delivered === 1 ? 'is' : 'are'} delivered`;
  const has = now === null ? '' : `, and the source has ${formatCount(now)} now`;
  const start = `${before}${has}.`;
  if (rows === null) {
    const fate =
      missingRows === 'drop' ? 'are removed' : 'stay, and the runs of their intervals fail';
    return `${start} How many of them the source no longer has is not known; such rows ${fate}.`;
  }
  if (rows === 0 && is === 'exact') return `${start} No delivered row would go.`;
  const count =
    is === 'exact' ? plural(rows, 'delivered row') : `At least ${plural(rows, 'delivered row')}`;
  return missingRows === 'drop'
    ? `${start} ${count} will be removed.`
    : `${start} ${count} would go, so the runs of these intervals fail and their files stay.`;
}
