import { cancelRun } from '../api.ts';
import type { Run } from '../api-types.ts';
import { useConsole, useSay } from '../use-api.ts';
import { hasEnded } from '../export-health.ts';
import { IntervalText, MessageText, useNow } from './time-text.tsx';
import { readRunError } from '../problems.ts';
import { stateOf } from '../run-state.ts';
import { AskButton } from './buttons.tsx';
import { ExportAgainButton } from './export-again.tsx';
import { RemovalText, removal } from './going-rows.tsx';

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
