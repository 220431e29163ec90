import { useConsole } from '../console-context.ts';
import { useResource } from '../use-resource.ts';
import { Failure, Loading } from './notice.tsx';
import { TimeText } from './time-text.tsx';

/** The latest changes of the export. */
export function ActivityList({ exportId, since }: { exportId: string; since: string }) {
  const { client } = useConsole();
  const { data, failure } = useResource({
    key: `${exportId} ${since}`,
    load: (signal) => client.listActivity(exportId, signal),
  });
  return (
    <div className="card panel">
      <h2>Changes</h2>
      <Failure failure={failure} />
      {!data && !failure && <Loading lines={2} />}
      <ol className="schedule">
        {data?.results.map(({ id, action, key_name, changes, happened_at }) => (
          <li key={id}>
            <TimeText at={happened_at} /> <strong>{action}</strong>{' '}
            {changes.map(({ field }) => field).join(', ')}{' '}
            {key_name !== null && <small className="muted">by key {key_name}</small>}
          </li>
        ))}
      </ol>
    </div>
  );
}
