import type { BatchExport, PlannedInterval } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { useResource } from '../use-resource.ts';
import { Failure, Loading } from './notice.tsx';
import { IntervalText } from './time-text.tsx';

const fates: Readonly<Record<PlannedInterval['fate'], string>> = {
  ran: '',
  paused: 'not exported: paused',
  outside_window: 'not exported: outside start and end',
};

/** The next intervals of the schedule. */
export function SchedulePreview({ batchExport }: { batchExport: BatchExport }) {
  const { client } = useConsole();
  const { id, last_updated_at } = batchExport;
  const { data, failure } = useResource({
    key: `${id} ${last_updated_at}`,
    load: (signal) => client.getSchedule(id, signal),
  });
  return (
    <>
      <h3>Next intervals</h3>
      <Failure failure={failure} />
      {!data && !failure && <Loading />}
      <ol className="schedule">
        {data?.results.map((planned) => (
          <Planned key={planned.data_interval_end} planned={planned} />
        ))}
      </ol>
    </>
  );
}

/** An interval in the reader's zone; if the schedule has another zone, also its start there. */
function Planned({ planned }: { planned: PlannedInterval }) {
  const { data_interval_start, data_interval_end, local_start, timezone, hours, fate } = planned;
  return (
    <li>
      <IntervalText start={data_interval_start} end={data_interval_end} />{' '}
      <small className="muted">
        {hours >= 1 && `${hours} h`}
        {!isOwnZone(timezone) && ` · from ${local_start.slice(11, 16)} in ${timezone}`}
      </small>{' '}
      <small className="warn-text">{fates[fate]}</small>
    </li>
  );
}

/** Whether the zone of the schedule needs no text: it is UTC or the reader's own. */
function isOwnZone(timezone: string): boolean {
  return timezone === 'UTC' || timezone === Intl.DateTimeFormat().resolvedOptions().timeZone;
}
