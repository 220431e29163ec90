import { useState } from 'react';
import { plural } from '../numbers.ts';
import { CodeField } from './code-field.tsx';
import { ConfigFields, fieldsOfGroup } from './config-group.tsx';
import { hasSetting, modeOf, modesOf } from './draft.ts';
import { FieldInput } from './field-input.tsx';
import { type Field, type FieldValues, isFirst } from './fields.ts';
import { fieldProps } from './form-words.ts';
import { LocalTimeInput } from './local-time-input.tsx';
import type { PartProps } from './part-props.ts';

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

/** Start and end, and the settings that are one value. */
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
