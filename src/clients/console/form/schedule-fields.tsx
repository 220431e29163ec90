import { days } from '../times.ts';
import { Choice } from './choice.tsx';
import { scheduleFields } from './draft.ts';
import { FieldInput } from './field-input.tsx';
import { fieldProps, inFormWords, labelsOf } from './form-words.ts';
import { LocalTimeInput } from './local-time-input.tsx';
import { offered } from './openapi.ts';
import type { PartProps } from './part-props.ts';
import { TextField } from './text-field.tsx';

/** The interval, its boundaries, and start and end. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: one form or table, from top to bottom
export function ScheduleFields({ description, draft, batchExport, errors, onChange }: PartProps) {
  const asked = scheduleFields(draft.interval);
  const known = labelsOf(description, draft.type);
  const allowed = description.installation?.intervals;
  return (
    <section className="card panel">
      <h2>When</h2>
      <div className="grid">
        <Choice
          {...fieldProps('interval', errors)}
          value={draft.interval}
          choices={offered(description.intervals, allowed, batchExport?.interval ?? '').map(
            (name) => [name, name],
          )}
          help={allowed && allowed.length < description.intervals.length && shorterOnes}
          onChange={(interval) => onChange({ interval })}
        />
        {asked.day && (
          <Choice
            {...fieldProps('offset_day', errors)}
            value={draft.offsetDay || '0'}
            choices={days.map((name, day) => [String(day), name])}
            onChange={(offsetDay) => onChange({ offsetDay })}
          />
        )}
        {asked.hour && (
          <>
            <Choice
              {...fieldProps('offset_hour', errors)}
              value={draft.offsetHour || '0'}
              choices={Array.from({ length: 24 }, (_, hour) => [
                String(hour),
                `${String(hour).padStart(2, '0')}:00`,
              ])}
              onChange={(offsetHour) => onChange({ offsetHour })}
            />
            <TextField
              {...fieldProps('timezone', errors)}
              value={draft.timezone}
              input={{ list: 'timezones', placeholder: 'Europe/Berlin' }}
              onChange={(timezone) => onChange({ timezone })}
              help="Days and weeks follow this zone, including daylight saving time."
            />
            <datalist id="timezones">
              {Intl.supportedValuesOf('timeZone').map((zone) => (
                <option key={zone} value={zone} />
              ))}
            </datalist>
          </>
        )}
      </div>
      <div className="grid">
        <LocalTimeInput
          {...fieldProps('start_at', errors)}
          value={draft.startAt}
          onChange={(startAt) => onChange({ startAt })}
          help="Leave empty to start immediately."
        />
        <LocalTimeInput
          {...fieldProps('end_at', errors)}
          value={draft.endAt}
          onChange={(endAt) => onChange({ endAt })}
          help="Leave empty to never end."
        />
        {description.settings
          .filter(({ isLocal }) => asked.hour || !isLocal)
          .map((field) => (
            <FieldInput
              key={field.name}
              field={{ ...field, description: inFormWords(field.description, known) }}
              attr={field.name}
              value={draft.settings[field.name] ?? ''}
              error={errors.get(field.name)}
              stored={false}
              onChange={(value) =>
                onChange({ settings: { ...draft.settings, [field.name]: value } })
              }
            />
          ))}
      </div>
      {!batchExport && draft.startAt !== '' && (
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
    </section>
  );
}

const shorterOnes = 'Shorter intervals are not allowed in this installation.';
