import { days } from '../times.ts';
import { Choice } from './choice.tsx';
import { scheduleFields } from './draft.ts';
import { labels } from './form-words.ts';
import { LocalTimeInput } from './local-time-input.tsx';
import { offered } from './openapi.ts';
import type { PartProps } from './part-props.ts';
import { TextField } from './text-field.tsx';

/** The interval, its boundaries, and start and end. */
export function ScheduleFields({ description, draft, batchExport, errors, onChange }: PartProps) {
  const asked = scheduleFields(draft.interval);
  const allowed = description.installation?.intervals;
  return (
    <section className="card panel">
      <h2>When</h2>
      <div className="grid">
        <Choice
          attr="interval"
          label={labels.interval}
          value={draft.interval}
          choices={offered(description.intervals, allowed, batchExport?.interval ?? '').map(
            (name) => [name, name],
          )}
          help={allowed && allowed.length < description.intervals.length && shorterOnes}
          error={errors.get('interval')}
          onChange={(interval) => onChange({ interval })}
        />
        {asked.day && (
          <Choice
            attr="offset_day"
            label={labels.offset_day}
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
              label={labels.offset_hour}
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
              label={labels.timezone}
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
          attr="start_at"
          label={labels.start_at}
          value={draft.startAt}
          error={errors.get('start_at')}
          onChange={(startAt) => onChange({ startAt })}
          help="Leave empty to start immediately."
        />
        <LocalTimeInput
          attr="end_at"
          label={labels.end_at}
          value={draft.endAt}
          error={errors.get('end_at')}
          onChange={(endAt) => onChange({ endAt })}
          help="Leave empty to never end."
        />
        <TextField
          attr="freshness_minutes"
          label={labels.freshness_minutes}
          value={draft.freshnessMinutes}
          error={errors.get('freshness_minutes')}
          onChange={(freshnessMinutes) => onChange({ freshnessMinutes })}
          input={{ type: 'number', min: 1 }}
          help={freshnessHelp(draft.interval)}
        />
        <TextField
          attr="deadline_minutes"
          label={labels.deadline_minutes}
          value={draft.deadlineMinutes}
          error={errors.get('deadline_minutes')}
          onChange={(deadlineMinutes) => onChange({ deadlineMinutes })}
          input={{ type: 'number', min: 1, max: 43_200 }}
          help="The deadline of each interval. Leave empty for none."
        />
        {asked.hour && (
          <TextField
            attr="deadline_at"
            label={labels.deadline_at}
            value={draft.deadlineAt}
            error={errors.get('deadline_at')}
            onChange={(deadlineAt) => onChange({ deadlineAt })}
            input={{ type: 'time' }}
            help="The deadline as a time of day in the time zone, instead of minutes."
          />
        )}
        <TextField
          attr="heal_for_hours"
          label={labels.heal_for_hours}
          value={draft.healForHours}
          error={errors.get('heal_for_hours')}
          onChange={(healForHours) => onChange({ healForHours })}
          input={{ type: 'number', min: 0, max: 720 }}
          help="After all attempts failed, Sluice exports the interval once the cause is over. 0 turns that off."
        />
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

/** The data is one interval old just before a run. A local day or week can be an hour longer. */
function freshnessHelp(interval: string): string {
  const [, every] = /^every (\d+) minutes$/.exec(interval) ?? [];
  const minutes = every ?? { hour: '60', day: '1,500', week: '10,140' }[interval];
  const rule = minutes === undefined ? '' : ` Enter more than ${minutes}.`;
  return `The export is late if its data is older.${rule} Leave empty for no objective.`;
}
