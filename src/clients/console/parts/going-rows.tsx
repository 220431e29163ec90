import type { Backfill, BackfillPreview } from '../api-types.ts';
import { describeGoing } from '../going-rows.ts';
import { formatCount } from '../numbers.ts';
import { Heads } from './tables.tsx';
import { IntervalText } from './time-text.tsx';

interface Props {
  readonly preview: BackfillPreview;
  readonly missingRows: Backfill['missing_rows'];
}

const shown = 10;

/** Says whether a backfill may remove delivered rows, so that a person is asked first. */
export function mayRemoveRows({ totals }: BackfillPreview, missingRows: Props['missingRows']) {
  return missingRows === 'drop' && (totals.would_go !== 0 || totals.would_go_is !== 'exact');
}

/** The number of delivered rows that the intervals of a preview would lose. */
export function GoingRows({ preview, missingRows }: Props) {
  const { intervals, totals } = preview;
  const losing = intervals.filter((one) => one.would_go !== 0);
  return (
    <>
      <p className={totals.would_go === 0 ? 'muted' : 'warn-text'}>
        {describeGoing(totals, missingRows)}
      </p>
      {totals.left_out !== null && <p className="muted small">{totals.left_out}</p>}
      {losing.length > 0 && (
        <div className="scroll">
          <table className="small" aria-label="Delivered rows that would go">
            <Heads names={['Interval', 'Delivered', 'Now', 'Would go']} />
            <tbody>
              {losing.slice(0, shown).map((one) => (
                <tr key={one.start}>
                  <th scope="row">
                    <IntervalText start={one.start} end={one.end} />
                  </th>
                  <td>{formatCount(one.delivered_rows)}</td>
                  <td>{one.rows_now === null ? '–' : formatCount(one.rows_now)}</td>
                  <td>
                    {one.would_go === null ? 'unknown' : formatCount(one.would_go)}
                    {one.would_go_is === 'at_least' && ' or more'}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {losing.length > shown && (
        <p className="muted small">And {formatCount(losing.length - shown)} more.</p>
      )}
    </>
  );
}

/** The dialog that asks before delivered rows are removed. */
export const removal = {
  title: 'Remove delivered rows?',
  verb: 'Remove them',
  danger: true,
} as const;

interface RemovalProps {
  /** A sentence about the rows that would go. */
  readonly going: string;
  /** `3 intervals` */
  readonly what: string;
}

export function RemovalText({ going, what }: RemovalProps) {
  return (
    <>
      <p>{going}</p>
      <p>
        The files of {what} are made again from what the source has now. Rows that it no longer has
        are gone from the bucket then, and this cannot be undone.
      </p>
    </>
  );
}
