import type { Run } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { hasEnded } from '../export-health.ts';
import { useNow } from '../now.ts';
import { readRunError } from '../problems.ts';
import { stateOf } from '../run-state.ts';
import { useAction } from '../use-action.ts';
import { Failure } from './notice.tsx';
import { IntervalText } from './time-text.tsx';

interface Props {
  readonly run: Run;
  readonly onRetried: () => void;
}

/** Why a run failed, what to do, and a button to retry. */
export function RunProblem({ run, onRetried }: Props) {
  const { client, may, say } = useConsole();
  const now = useNow();
  const retry = useAction(async () => {
    await client.retryRun(run.batch_export, run.id);
    say('A new run of the interval is queued.');
    onRetried();
  });
  if (run.latest_error === null) return null;
  const { code, text } = readRunError(run.latest_error);
  const failed = run.status === 'Failed' || run.status === 'FailedRetryable';
  return (
    <div className={`row alert ${failed ? 'is-Failed' : 'is-paused'}`}>
      <div>
        <p>
          <strong>{stateOf(run, now).label}</strong>{' '}
          <IntervalText start={run.data_interval_start} end={run.data_interval_end} />{' '}
          {code !== null && <code>{code}</code>}
        </p>
        <p>{text}</p>
        <Failure failure={retry.failure} />
      </div>
      {hasEnded(run) && may('batch_export:write') && (
        <button type="button" onClick={() => void retry.run()} disabled={retry.busy}>
          Retry
        </button>
      )}
    </div>
  );
}
