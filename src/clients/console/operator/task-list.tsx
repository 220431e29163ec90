import type { OperatorTask } from '../api-types.ts';
import { plural } from '../numbers.ts';
import { Failure } from '../parts/notice.tsx';
import { TimeText } from '../parts/time-text.tsx';
import { useAction } from '../use-action.ts';
import { useResource } from '../use-resource.ts';
import type { OperatorClient } from './operator-client.ts';

interface ListProps {
  readonly client: OperatorClient;
  /** Whether the key may cancel a task. */
  readonly mayWrite: boolean;
}

/** What operators have started, with its progress. */
export function TaskList({ client, mayWrite }: ListProps) {
  const { data, failure, reload } = useResource({
    key: 'tasks',
    load: (signal) => client.listTasks(signal),
    pollMs: () => 3_000,
  });
  if (!failure && (!data || data.count === 0)) return null;
  return (
    <section aria-labelledby="tasks">
      <h2 id="tasks">Started by operators</h2>
      <Failure failure={failure} onRetry={reload} stale={data !== null} />
      <ul className="card" aria-label={plural(data?.results.length ?? 0, 'task')}>
        {data?.results.map((task) => (
          <TaskRow key={task.id} {...{ task, client, mayWrite }} />
        ))}
      </ul>
    </section>
  );
}

const verbs: Readonly<Record<OperatorTask['action'], string>> = {
  probe: 'Probe',
  retry: 'Retry all',
  pause: 'Pause all',
};

interface Props extends ListProps {
  readonly task: OperatorTask;
}

function TaskRow({ task, client, mayWrite }: Props) {
  const cancel = useAction(async () => {
    await client.cancelTask(task.id);
  });
  return (
    <li className="stack">
      <div className="row heading">
        <span>
          <strong>{verbs[task.action]}</strong> <bdi>{task.cause}</bdi>
        </span>
        <span className="muted">
          {task.status} · <TimeText at={task.created_at} />
        </span>
      </div>
      <p>
        {task.done_exports + task.skipped_exports} of {plural(task.exports, 'export')} ·{' '}
        {plural(task.completed_runs, 'run')} completed, {task.failed_runs} failed,{' '}
        {task.runs - task.completed_runs - task.failed_runs} open
      </p>
      {task.skipped_because.map(({ reason, exports }) => (
        <p key={reason} className="muted">
          Passed over {plural(exports, 'export')}: {reason}
        </p>
      ))}
      <Failure failure={cancel.failure} />
      {mayWrite && task.status === 'Running' && (
        <button type="button" aria-disabled={cancel.busy} onClick={() => void cancel.run()}>
          Cancel
        </button>
      )}
    </li>
  );
}
