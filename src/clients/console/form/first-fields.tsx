import type { ReactNode } from 'react';
import { days } from '../times.ts';
import { Choice } from './choice.tsx';
import { ConfigFields, fieldsOfGroup } from './config-group.tsx';
import { destinationForm, modelChoices, scheduleFields, typesOf, withType } from './draft.ts';
import { type Field, isFirst } from './fields.ts';
import { fieldProps } from './form-words.ts';
import { offered } from './openapi.ts';
import type { PartProps } from './part-props.ts';
import { TextField } from './text-field.tsx';

interface Props extends PartProps {
  /** The names of the enabled steps of the project. */
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

/** The interval and its boundaries. */
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

/** The rules of this installation for credentials and endpoints. */
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
