import { plural } from '../numbers.ts';
import { Failure, Loading } from '../parts/notice.tsx';
import { useResource } from '../use-resource.ts';
import { causeExportsPageSize, type OperatorClient } from './operator-client.ts';

interface Props {
  readonly causeId: string;
  readonly client: OperatorClient;
}

/** The exports that a cause holds up. */
export function CauseExports({ causeId, client }: Props) {
  const { data, failure, reload } = useResource({
    key: causeId,
    load: (signal) => client.listExports(causeId, 0, signal),
    pollMs: () => 10_000,
  });
  return (
    <>
      <Failure failure={failure} onRetry={reload} stale={data !== null} />
      {!data && !failure && <Loading lines={3} />}
      {data && (
        <ul className="cause-exports" aria-label={plural(data.count, 'export')}>
          {data.results.map((one) => (
            <li key={one.id}>
              {one.organization_name} › {one.project_name} › <strong>{one.name}</strong>{' '}
              <small className="muted">{one.id}</small>
              {one.missing_intervals > 0 &&
                ` · ${plural(one.missing_intervals, 'interval')} without data`}
              {one.latest_error !== null && <p className="muted">{one.latest_error}</p>}
            </li>
          ))}
        </ul>
      )}
      {data && data.count > causeExportsPageSize && (
        <p className="muted">{plural(data.count - causeExportsPageSize, 'more export')}</p>
      )}
    </>
  );
}
