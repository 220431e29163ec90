import type { BatchExport } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { readSchedule } from '../schedule.ts';
import { useResource } from '../use-resource.ts';
import { Failure, Loading } from './notice.tsx';
import { IntervalText } from './time-text.tsx';

/** The next intervals, as the service will cut them. */
export function SchedulePreview({ batchExport }: { batchExport: BatchExport }) {
  const { client } = useConsole();
  const { id, last_updated_at } = batchExport;
  const { data, failure } = useResource({
    key: `${id} ${last_updated_at}`,
    load: async (signal) => readSchedule(await client.getSchedule(id, signal)),
  });
  return (
    <>
      <h3>Next intervals</h3>
      <Failure failure={failure} />
      {!data && !failure && <Loading />}
      <ol className="schedule">
        {data?.map(({ start, end, hours, fate }) => (
          <li key={end}>
            <IntervalText start={start} end={end} />{' '}
            <small className="muted">
              {hours !== null && `${hours} h`} {fate}
            </small>
          </li>
        ))}
      </ol>
    </>
  );
}
