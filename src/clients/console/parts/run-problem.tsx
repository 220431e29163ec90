import { cancelRun } from '../api.ts';
import type { Run } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { hasEnded } from '../export-health.ts';
import { describeMissing } from '../going-rows.ts';
import { useNow } from '../now.ts';
import { readRunError } from '../problems.ts';
import { stateOf } from '../run-state.ts';
import { useAction } from '../use-action.ts';
import { DialogButton } from './dialog.tsx';
import { ExportAgainButton } from './export-again.tsx';
import { RemovalDialog } from './going-rows.tsx';
import { IntervalText } from './time-text.tsx';
import { useSay } from './toasts.tsx';
import { MessageText } from './message-text.tsx';

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
          {lacksRows && (
            <DialogButton
              className="danger"
              dialog={(onClose) => <DropDialog {...{ run, text, onClose }} />}
            >
              Export again and drop missing rows
            </DialogButton>
          )}
        </div>
      )}
    </div>
  );
}

interface DropProps extends Props {
  /** The text of the error. */
  readonly text: string;
  readonly onClose: () => void;
}

/** Asks before the interval is exported again without the rows that its source no longer has. */
function DropDialog({ run, text, onClose }: DropProps) {
  const { api } = useConsole();
  const say = useSay();
  const drop = useAction(async () => {
    const { id } = await api.post(
      'batch_exports/{batch_export_id}/runs/{id}/retry',
      { batch_export_id: run.batch_export, id: run.id },
      { missing_rows: 'drop' },
    );
    say('The interval is exported again, without the rows that are missing.', async () => {
      await cancelRun(api, run.batch_export, id);
    });
    onClose();
  });
  return (
    <RemovalDialog
      going={describeMissing(text) ?? 'How many rows would go is not known.'}
      what="the interval"
      action={drop}
      onClose={onClose}
    />
  );
}
