import { days } from '../times.ts';
import { Choice } from './choice.tsx';
import { scheduleFields } from './draft.ts';
import { LocalTimeInput } from './local-time-input.tsx';
import type { PartProps } from './part-props.ts';
import { TextField } from './text-field.tsx';

/** The interval, its boundaries, and start and end. */
export function ScheduleFields({ description, draft, batchExport, errors, onChange }: PartProps) {
  const asked = scheduleFields(draft.interval);
  return (
    <section className="card panel">
      <h2>Schedule</h2>
      <div className="grid">
        <Choice
          attr="interval"
          label="Interval"
          value={draft.interval}
          choices={description.intervals.map((name) => [name, name])}
          error={errors.get('interval')}
          onChange={(interval) => onChange({ interval })}
        />
        {asked.day && (
          <Choice
            attr="offset_day"
            label="Week begins on"
            value={draft.offsetDay || '0'}
            choices={days.map((name, day) => [String(day), name])}
            error={errors.get('offset_day')}
            onChange={(offsetDay) => onChange({ offsetDay })}
          />
        )}
        {asked.hour && (
          <>
            <Choice
              attr="offset_hour"
              label="Day begins at"
              value={draft.offsetHour || '0'}
              choices={Array.from({ length: 24 }, (_, hour) => [
                String(hour),
                `${String(hour).padStart(2, '0')}:00`,
              ])}
              error={errors.get('offset_hour')}
              onChange={(offsetHour) => onChange({ offsetHour })}
            />
            <TextField
              attr="timezone"
              label="Time zone"
              value={draft.timezone}
              error={errors.get('timezone')}
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
          label="Start"
          value={draft.startAt}
          error={errors.get('start_at')}
          onChange={(startAt) => onChange({ startAt })}
          help="Leave empty to start immediately."
        />
        <LocalTimeInput
          label="End"
          value={draft.endAt}
          error={errors.get('end_at')}
          onChange={(endAt) => onChange({ endAt })}
          help="Leave empty to never end."
        />
      </div>
      {!batchExport && draft.startAt !== '' && (
        <label className="choice">
          <input
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
