import type { ReactNode } from 'react';
import type { BatchExport, Config, PlannedInterval } from '../api-types.ts';
import { useConsole, useDescription, useResource } from '../use-api.ts';
import { describeInterval } from '../export-health.ts';
import { destinationForm } from '../form/draft.ts';
import { type Field, labelOf } from '../form/fields.ts';
import { plural } from '../numbers.ts';
import { Facts } from '../parts/tables.tsx';
import { Failure, Loading } from '../parts/notice.tsx';
import { IntervalText, TimeText } from '../parts/time-text.tsx';
import { TrySavedDestination, TrySavedRows } from '../parts/try-out.tsx';
import { days } from '../times.ts';

/** The settings of the export, its next intervals, and the test of its destination. */
export function SettingsTab({ batchExport }: { batchExport: BatchExport }) {
  const description = useDescription();
  const { destination, model, dsl_query: query, transformations } = batchExport;
  const form = description.data && destinationForm(description.data, destination.type);
  const fieldOf = (name: string) => form?.fields.find((one) => one.name === name);
  const names = form?.fields.map(({ name }) => name) ?? Object.keys(destination.config);
  const isUsual = (name: string) => isDefault(fieldOf(name), destination.config[name]);
  const usual = names.filter(isUsual);
  const factsOf = (shown: readonly string[]) =>
    Object.fromEntries(
      shown.map((name) => [
        labelOf(name),
        fieldOf(name)?.kind === 'secret'
          ? secretText(batchExport.secrets.find((one) => one.name === name))
          : valueText(destination.config[name]),
      ]),
    );
  return (
    <section aria-label="Settings">
      <div className="card panel">
        <h2>Destination: {destination.type}</h2>
        <Facts of={factsOf(names.filter((name) => !isUsual(name)))} />
        {usual.length > 0 && (
          <details>
            <summary>{plural(usual.length, 'setting')} as by default</summary>
            <Facts of={factsOf(usual)} />
          </details>
        )}
        <TrySavedDestination exportId={batchExport.id} />
      </div>
      <div className="card panel">
        <h2>Schedule</h2>
        <ScheduleFacts batchExport={batchExport} />
        <SchedulePreview batchExport={batchExport} />
      </div>
      <div className="card panel">
        <h2>Rows</h2>
        <Facts
          of={{ Model: model, Transformations: transformations ? 'applied' : 'not applied' }}
        />
        {query === null ? (
          <p className="muted">All columns, all rows.</p>
        ) : (
          <pre className="code">{query}</pre>
        )}
        <TrySavedRows exportId={batchExport.id} />
      </div>
      <p className="muted">
        <code>{batchExport.id}</code> · created <TimeText at={batchExport.created_at} /> · changed{' '}
        <TimeText at={batchExport.last_updated_at} />
      </p>
    </section>
  );
}

/** Says whether a setting has the value that it has if it is not set. */
const isDefault = (field: Field | undefined, value: Config[string]): boolean =>
  field !== undefined &&
  field.kind !== 'secret' &&
  !field.required &&
  JSON.stringify(value ?? null) === JSON.stringify(field.default ?? null);

function ScheduleFacts({ batchExport }: { batchExport: BatchExport }) {
  const { interval, timezone, offset_day, offset_hour, start_at, end_at } = batchExport;
  return (
    <Facts
      of={{
        Interval: describeInterval(interval),
        'Week begins on': offset_day === null ? null : days[offset_day],
        'Day begins at': offset_hour !== null && (
          <>
            {String(offset_hour).padStart(2, '0')}:00 <small className="muted">{timezone}</small>
          </>
        ),
        Start: start_at === null ? muted('immediately') : <TimeText at={start_at} />,
        End: end_at === null ? muted('never') : <TimeText at={end_at} />,
      }}
    />
  );
}

const muted = (text: string) => <span className="muted">{text}</span>;

/** Says whether a secret is set; of the id of a key, its end. */
function secretText(stored: BatchExport['secrets'][number] | undefined): ReactNode {
  if (stored === undefined) return muted('not set');
  return stored.ends_with === null ? muted('hidden') : <code>…{stored.ends_with}</code>;
}

function valueText(value: Config[string]): ReactNode {
  if (value === undefined || value === null || value === '') return muted('not set');
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return Array.isArray(value) ? value.join(', ') : String(value);
}

const fates: Readonly<Record<PlannedInterval['fate'], string>> = {
  ran: '',
  paused: 'not exported: paused',
  outside_window: 'not exported: outside start and end',
};

function SchedulePreview({ batchExport }: { batchExport: BatchExport }) {
  const { api } = useConsole();
  const { id, last_updated_at } = batchExport;
  const { data, failure } = useResource({
    key: `${id} ${last_updated_at}`,
    load: (signal) => api.get('batch_exports/{id}/schedule', { id }, signal),
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

/** Says whether the zone of the schedule needs no text: it is UTC or the reader's own. */
function isOwnZone(timezone: string): boolean {
  return timezone === 'UTC' || timezone === Intl.DateTimeFormat().resolvedOptions().timeZone;
}
