import { cancelBackfill, cancelRun, readRunError, startBackfill } from '../api.ts';
import type { Backfill, BackfillPreview, Run } from '../api-types.ts';
import { useAction, useConsole, useSay } from '../use-api.ts';
import { hasEnded } from '../export-health.ts';
import { IntervalText, MessageText, useNow } from './time-text.tsx';
import { stateOf } from '../run-state.ts';
import { ActButton, AskButton } from './buttons.tsx';
import { describeGoing } from '../going-rows.ts';
import { formatCount, plural } from '../numbers.ts';
import { Heads } from './tables.tsx';

interface Props {
  readonly run: Run;
}

/** Why a run failed, what to do, and a button to export its interval again. */
export function RunProblem({ run }: Props) {
  const { may } = useConsole();
  const now = useNow();
  if (run.latest_error === null) return null;
  const { code, text } = readRunError(run.latest_error);
  const lacksRows = code === 'source.rows_missing' && run.purpose === 'whole';
  const failed = run.status === 'Failed' || run.status === 'FailedRetryable';
  return (
    <div className={`row alert ${failed ? 'is-Failed' : 'is-paused'}`}>
      <div>
        <p>
          <strong>{stateOf(run, now).label}</strong>{' '}
          <IntervalText start={run.data_interval_start} end={run.data_interval_end} />{' '}
          {code !== null && <code>{code}</code>}
        </p>
        <p>
          <MessageText text={text} />
        </p>
        {run.superseded && (
          <p className="good-text">
            The interval was exported later: nothing is left to do about this run.
          </p>
        )}
        {lacksRows && (
          <p>
            To keep the files as they are, there is nothing to do. Only a person can decide to
            remove these rows.
          </p>
        )}
      </div>
      {hasEnded(run) && run.purpose !== 'erase' && may('batch_export:write') && (
        <div className="row last">
          <ExportAgainButton exportId={run.batch_export} again={{ run }} />
          {lacksRows && <DropButton {...{ run, text }} />}
        </div>
      )}
    </div>
  );
}

interface DropProps extends Props {
  /** The text of the error, which has the numbers of rows. */
  readonly text: string;
}

/** Asks before the interval is exported again without the rows that its source no longer has. */
function DropButton({ run, text }: DropProps) {
  const { api } = useConsole();
  const say = useSay();
  const drop = async () => {
    const { id } = await api.post(
      'batch_exports/{batch_export_id}/runs/{id}/retry',
      { batch_export_id: run.batch_export, id: run.id },
      { missing_rows: 'drop' },
    );
    say('The interval is exported again, without the rows that are missing.', () =>
      cancelRun(api, run.batch_export, id),
    );
  };
  return (
    <AskButton
      className="danger"
      button="Export again and drop missing rows"
      {...removal}
      work={drop}
    >
      <RemovalText going={text} what="the interval" />
    </AskButton>
  );
}

interface GoingRowsProps {
  readonly preview: BackfillPreview;
  readonly missingRows: Backfill['missing_rows'];
}

const shown = 10;

/** Says whether a backfill may remove delivered rows, so that a person is asked first. */
export function mayRemoveRows(
  { totals }: BackfillPreview,
  missingRows: GoingRowsProps['missingRows'],
) {
  return missingRows === 'drop' && (totals.would_go !== 0 || totals.would_go_is !== 'exact');
}

/** The number of delivered rows that the intervals of a preview would lose. */
export function GoingRows({ preview, missingRows }: GoingRowsProps) {
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

/** The intervals that are exported again: the one of a run, or those of a range. */
type Again =
  | { readonly run: Pick<Run, 'id'> }
  | {
      readonly start: string;
      readonly end: string;
      readonly intervals: number;
      readonly reprocess: Backfill['reprocess'];
    };

interface ExportAgainProps {
  readonly exportId: string;
  readonly again: Again;
  readonly className?: string;
}

/** For failed, missing or finished intervals. It starts at once, and the message that says so can cancel it. */
export function ExportAgainButton({ exportId, again, className }: ExportAgainProps) {
  const { api, may } = useConsole();
  const say = useSay();
  const begin = useAction(async () => {
    if ('run' in again) {
      const { id } = await api.post('batch_exports/{batch_export_id}/runs/{id}/retry', {
        batch_export_id: exportId,
        id: again.run.id,
      });
      say('The interval is exported again.', () => cancelRun(api, exportId, id));
    } else {
      const { start, end, reprocess } = again;
      const range = { start_at: start, end_at: end, order: 'oldest_first' as const, reprocess };
      const { backfill_id: id, backfill_total_runs: runs = 0 } = await startBackfill(
        api,
        exportId,
        range,
      );
      if (runs === 0) return 'There is nothing to export: these intervals have data or a live run.';
      say(
        `${runs === 1 ? '1 interval is' : `${plural(runs, 'interval')} are`} exported again.`,
        () => cancelBackfill(api, exportId, id ?? '', 'cancel'),
      );
    }
  });
  if (!may('batch_export:write')) return null;
  const many =
    'run' in again || again.intervals === 1 ? '' : `${plural(again.intervals, 'interval')} `;
  return (
    <ActButton act={begin} className={className}>
      Export {many}again
    </ActButton>
  );
}
