import type { BatchExport, Config, PlannedInterval } from '../api-types.ts';
import { useConsole, useDescription, useResource } from '../use-api.ts';
import { describeInterval } from '../export-health.ts';
import { destinationForm } from '../form/draft.ts';
import { labelOf } from '../form/fields.ts';
import type { DestinationForm } from '../form/openapi.ts';
import { plural } from '../numbers.ts';
import { Fact, Facts } from '../parts/tables.tsx';
import { Failure, Loading } from '../parts/notice.tsx';
import { IntervalText, TimeText } from '../parts/time-text.tsx';
import { TrySavedDestination, TrySavedRows } from '../parts/try-out.tsx';
import { days } from '../times.ts';

/** The settings of the export, its next intervals, and the test of its destination. */
export function SettingsTab({ batchExport }: { batchExport: BatchExport }) {
  const description = useDescription();
  const { destination, model, dsl_query: query, transformations } = batchExport;
  const form = description.data ? destinationForm(description.data, destination.type) : undefined;
  const secrets =
    form?.fields.filter(({ kind }) => kind === 'secret').map(({ name }) => name) ?? [];
  const isUsual = (name: string) =>
    !secrets.includes(name) && isDefault(form, name, destination.config[name]);
  const names = inOrder(form, destination.config);
  const [own, usual] = [names.filter((name) => !isUsual(name)), names.filter(isUsual)];
  const fact = (name: string) => (
    <Fact key={name} name={labelOf(name)}>
      {secrets.includes(name) ? (
        <SecretValue stored={batchExport.secrets.find((one) => one.name === name)} />
      ) : (
        <ConfigValue value={destination.config[name]} />
      )}
    </Fact>
  );
  return (
    <section aria-label="Settings">
      <div className="card panel">
        <h2>Destination: {destination.type}</h2>
        <Facts>{own.map(fact)}</Facts>
        {usual.length > 0 && (
          <details>
            <summary>{plural(usual.length, 'setting')} as by default</summary>
            <Facts>{usual.map(fact)}</Facts>
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
        <Facts>
          <Fact name="Model">{model}</Fact>
          <Fact name="Transformations">{transformations ? 'applied' : 'not applied'}</Fact>
        </Facts>
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
function isDefault(
  form: DestinationForm | undefined,
  name: string,
  value: Config[string],
): boolean {
  const field = form?.fields.find((one) => one.name === name);
  if (!field || field.required) return false;
  return JSON.stringify(value ?? null) === JSON.stringify(field.default ?? null);
}

/** The names of a config in the order of its schema, including secrets. */
function inOrder(form: DestinationForm | undefined, config: Config): readonly string[] {
  return form?.fields.map(({ name }) => name) ?? Object.keys(config);
}

function ScheduleFacts({ batchExport }: { batchExport: BatchExport }) {
  const { interval, timezone, offset_day, offset_hour, start_at, end_at } = batchExport;
  return (
    <Facts>
      <Fact name="Interval">{describeInterval(interval)}</Fact>
      {offset_day !== null && <Fact name="Week begins on">{days[offset_day]}</Fact>}
      {offset_hour !== null && (
        <Fact name="Day begins at">
          {String(offset_hour).padStart(2, '0')}:00 <small className="muted">{timezone}</small>
        </Fact>
      )}
      <Fact name="Start">
        {start_at === null ? (
          <span className="muted">immediately</span>
        ) : (
          <TimeText at={start_at} />
        )}
      </Fact>
      <Fact name="End">
        {end_at === null ? <span className="muted">never</span> : <TimeText at={end_at} />}
      </Fact>
    </Facts>
  );
}

/** Says whether a secret is set; of the id of a key, its end. */
function SecretValue({ stored }: { stored: BatchExport['secrets'][number] | undefined }) {
  if (stored === undefined) return <span className="muted">not set</span>;
  if (stored.ends_with === null) return <span className="muted">hidden</span>;
  return <code>…{stored.ends_with}</code>;
}

function ConfigValue({ value }: { value: Config[string] }) {
  if (value === undefined || value === null || value === '')
    return <span className="muted">not set</span>;
  if (typeof value === 'boolean') return <>{value ? 'yes' : 'no'}</>;
  return <>{Array.isArray(value) ? value.join(', ') : String(value)}</>;
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
