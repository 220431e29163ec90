import { type ReactNode, useState } from 'react';
import { days } from '../times.ts';
import { Choice, CodeField, LocalTimeInput, TextField } from './inputs.tsx';
import { ConfigFields, FieldInput, fieldsOfGroup } from './config-fields.tsx';
import {
  destinationForm,
  hasSetting,
  modelChoices,
  modeOf,
  modesOf,
  type PartProps,
  scheduleFields,
  typesOf,
  withType,
} from './draft.ts';
import { type Field, type FieldValues, isFirst } from './fields.ts';
import { fieldProps } from './form-words.ts';
import { offered } from './openapi.ts';
import { plural } from '../numbers.ts';

interface Props extends PartProps {
  readonly steps: readonly string[];
}

/** The fields that each export needs: what is exported, its destination, its files, and how often. */
export function FirstFields(props: Props) {
  const { description, draft, batchExport, onChange, steps } = props;
  const types = offered(typesOf(description), description.installation?.destinations, draft.type);
  const fields = fieldsOfGroup(props, null).filter(isFirst);
  const isFormat = ({ name }: Field) => name === 'file_format';
  return (
    <section className="card panel">
      <div className="grid">
        <TextField
          {...fieldProps('name', props)}
          help="Shown in lists and alerts."
          input={{ 'aria-required': true }}
        />
        <Choice
          {...fieldProps('model', props)}
          choices={modelChoices(description, draft.model)}
          disabled={batchExport !== null}
          help={batchExport ? 'It cannot change.' : 'The rows that are exported.'}
        />
        <Choice
          {...fieldProps('destination__type', props)}
          choices={types.map((type) => [type, type])}
          disabled={batchExport !== null}
          onChange={(type) => onChange(withType(description, draft, type))}
          help={
            batchExport
              ? 'It cannot change. For another type, create another export.'
              : destinationForm(description, draft.type)?.description
          }
        />
        <ConfigFields {...props} fields={fields.filter((field) => !isFormat(field))} />
        <ConfigFields {...props} fields={fields.filter(isFormat)} />
        <Times {...props} />
        {(steps.length > 0 || draft.transformations === 'yes') && (
          <Choice
            {...fieldProps('transformations', props)}
            choices={[
              ...(draft.transformations === '' ? [['', 'Choose…'] as const] : []),
              ['yes', 'Yes: the chain of the project changes its rows'],
              ['no', 'No: its rows stay as they are'],
            ]}
            help={
              steps.length === 0
                ? 'The project has no enabled step now.'
                : `The enabled ${steps.length === 1 ? 'step' : 'steps'} of the project: ${steps.join(', ')}.`
            }
          />
        )}
      </div>
      <Rules {...props} />
    </section>
  );
}

function Times(props: PartProps): ReactNode {
  const { description, draft, batchExport } = props;
  const scheduled = scheduleFields(draft.interval);
  const allowed = description.installation?.intervals;
  const intervals = offered(description.intervals, allowed, batchExport?.interval ?? '');
  return (
    <>
      <Choice
        {...fieldProps('interval', props)}
        choices={intervals.map((name) => [name, name])}
        help={
          allowed && allowed.length < description.intervals.length
            ? 'Shorter intervals are not allowed in this installation.'
            : 'How often files are written.'
        }
      />
      {scheduled.day && (
        <Choice
          {...fieldProps('offset_day', props)}
          value={draft.offsetDay || '0'}
          choices={days.map((name, day) => [String(day), name])}
        />
      )}
      {scheduled.hour && (
        <>
          <Choice
            {...fieldProps('offset_hour', props)}
            value={draft.offsetHour || '0'}
            choices={Array.from({ length: 24 }, (_, hour) => [
              String(hour),
              `${String(hour).padStart(2, '0')}:00`,
            ])}
          />
          <TextField
            {...fieldProps('timezone', props)}
            input={{ list: 'timezones', placeholder: 'Europe/Berlin' }}
            help="Days and weeks follow this zone, including daylight saving time."
          />
          <datalist id="timezones">
            {Intl.supportedValuesOf('timeZone').map((zone) => (
              <option key={zone} value={zone} />
            ))}
          </datalist>
        </>
      )}
    </>
  );
}

function Rules({ description, draft, batchExport }: PartProps) {
  const here = description.installation;
  const fields = destinationForm(description, draft.type)?.fields ?? [];
  if (!here || !fields.some(({ kind }) => kind === 'secret')) return null;
  const rules = [
    here.own_credentials
      ? 'Without credentials, those of this installation are used.'
      : 'This installation does not share its own credentials: enter an access key.',
    batchExport !== null &&
      'A stored secret stays if its field is empty. To test other settings than the saved ones, enter it again.',
    fields.some(({ name }) => name === 'endpoint_url') &&
      (here.private_endpoints
        ? 'Endpoints must be public, or be allowed by your operator.'
        : 'Endpoints must be public: no private network is allowed in this installation.'),
  ];
  return <p className="help">{rules.filter(Boolean).join(' ')}</p>;
}

/** The settings that most exports leave as they are. It is open if one differs from its default. */
export function MoreFields(props: PartProps) {
  const { description, draft, batchExport } = props;
  const groups = [
    ['Place', 'destination'],
    ['Files', 'files'],
    ['Special values and rejected rows', 'values'],
  ] as const;
  const changed = changedFields(props);
  const [isOpen, setOpen] = useState(changed.length > 0);
  const events = fieldsOfGroup(props, 'rows');
  const models = description.installation?.models;
  const hasEvents = models?.find(({ name }) => name === draft.model)?.event_filters ?? true;
  return (
    <details
      className="card panel more"
      open={isOpen}
      onToggle={({ currentTarget }) => setOpen(currentTarget.open)}
    >
      <summary>
        More{' '}
        <small className="muted">
          {changed.length === 0
            ? 'all as usual'
            : `${plural(changed.length, 'setting')} of its own: ${changed.join(', ')}`}
        </small>
      </summary>
      <h2>Rows</h2>
      <CodeField
        {...fieldProps('dsl_query', props)}
        label={
          <>
            Query<small className="muted"> optional</small>
          </>
        }
        placeholder={`select … from "${draft.model || 'model'}" where …`}
        help={`${draft.dslQuery === '' ? 'Now: all columns of all rows. ' : ''}One SELECT over the model chooses columns and rows.${
          batchExport?.filters
            ? ' It has the conditions of the export’s filters. If you change it here, only this text decides, and the filters are removed.'
            : ''
        }`}
      />
      {hasEvents && (
        <div className="grid">
          <ConfigFields {...props} fields={events} />
        </div>
      )}
      {groups.map(([title, group]) => {
        const fields = fieldsOfGroup(props, group).filter((field) => !isFirst(field));
        if (fields.length === 0) return null;
        return (
          <div key={group}>
            <h2>{title}</h2>
            <div className="grid">
              <ConfigFields {...props} fields={fields} />
            </div>
          </div>
        );
      })}
      <h2>Time</h2>
      <Bounds {...props} />
    </details>
  );
}

function Bounds(props: PartProps) {
  const { description, draft, batchExport, errors, onChange } = props;
  const mode = modeOf(description, draft);
  const values: FieldValues = { ...draft.settings, mode };
  const withModes = (field: Field): Field =>
    field.name === 'mode' ? { ...field, choices: modesOf(description, draft.model) } : field;
  return (
    <>
      <div className="grid">
        <LocalTimeInput {...fieldProps('start_at', props)} help="Now: it starts immediately." />
        <LocalTimeInput {...fieldProps('end_at', props)} help="Now: it never ends." />
        {description.settings
          .filter((field) => hasSetting({ ...draft, settings: values }, field))
          .map((field) => (
            <FieldInput
              key={field.name}
              field={withModes(field)}
              attr={field.name}
              value={values[field.name] ?? ''}
              error={errors.get(field.name)}
              stored={false}
              onChange={(value) =>
                onChange({ settings: { ...draft.settings, [field.name]: value } })
              }
            />
          ))}
      </div>
      {!batchExport && draft.startAt !== '' && mode === 'append' && (
        <label className="choice">
          <input
            id="backfill"
            type="checkbox"
            checked={draft.backfill}
            onChange={(event) => onChange({ backfill: event.target.checked })}
          />
          <span>
            <strong>Backfill from the start</strong>
            <small>Also export the rows between the start and now.</small>
          </span>
        </label>
      )}
    </>
  );
}

/** The labels of the settings here that differ from their defaults. */
function changedFields(props: PartProps): readonly string[] {
  const { description, draft } = props;
  const differs = (values: FieldValues) => (field: Field) =>
    String(values[field.name] ?? '') !==
    String(field.default ?? (field.kind === 'flag' ? false : ''));
  const config = fieldsOfGroup(props, null).filter((field) => !isFirst(field));
  const own = [
    ...config.filter(differs(draft.values)),
    ...description.settings
      .filter((field) => hasSetting(draft, field))
      .filter(differs(draft.settings)),
  ].map(({ label }) => label);
  return [
    ...(draft.dslQuery === '' ? [] : ['Query']),
    ...own,
    ...(draft.startAt === '' ? [] : ['Start']),
    ...(draft.endAt === '' ? [] : ['End']),
  ];
}
