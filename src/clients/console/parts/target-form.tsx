import { useState } from 'react';
import type { NotificationTarget, TargetBody } from '../api-types.ts';
import { Choice } from '../form/choice.tsx';
import { problemsOf } from '../form/form-problems.tsx';
import { fieldsIn } from '../form/fields-in.ts';
import { TextField } from '../form/text-field.tsx';
import { eventTexts } from '../target-events.ts';
import { useTargets } from '../targets-context.ts';
import { useAction } from '../use-action.ts';
import { ConfirmDialog } from './dialog.tsx';

interface Props {
  /** Null: a new one. */
  readonly target: NotificationTarget | null;
  readonly save: (body: TargetBody) => Promise<void>;
  readonly onClose: () => void;
}

interface Draft extends Pick<NotificationTarget, 'kind' | 'description' | 'format'> {
  readonly reach: 'project' | 'all';
  readonly url: string;
  readonly recipients: string;
  readonly events: readonly string[];
}

const kinds = [
  ['webhook', 'Webhook'],
  ['email', 'E-mail'],
] as const;
const formats = [
  ['json', 'JSON, for a program'],
  ['slack', 'Slack, Mattermost'],
  ['teams', 'Microsoft Teams'],
  ['discord', 'Discord'],
  ['pagerduty', 'PagerDuty'],
] as const;

/** Creates or edits a notification target. */
export function TargetDialog({ target, save, onClose }: Props) {
  const { events: all, reach } = useTargets();
  const [draft, setDraft] = useState<Draft>(() => ({
    reach: 'project',
    kind: target?.kind ?? 'webhook',
    description: target?.description ?? '',
    url: '',
    format: target?.format ?? 'json',
    recipients: target?.recipients.join(', ') ?? '',
    events: target?.events ?? all,
  }));
  const change = (part: Partial<Draft>) => setDraft((last) => ({ ...last, ...part }));
  const { kind, description, url, format, recipients, events } = draft;
  const action = useAction(async () => {
    const address =
      kind === 'email'
        ? { recipients: recipients.split(/[\s,]+/).filter((each) => each !== '') }
        : { ...(url === '' ? {} : { url }), format };
    const team = reach && { team_id: draft.reach === 'all' ? null : reach.projectId };
    const body = { ...(target ? {} : { kind, ...team }), description, events, ...address };
    await save(body as TargetBody);
    onClose();
  });
  const attrs = ['team_id', 'description', 'url', 'format', 'recipients'];
  const field = fieldsIn(draft, change, problemsOf(action.failure, attrs).byField);
  const toggle = (event: string) =>
    change({
      events: events.includes(event) ? events.filter((each) => each !== event) : [...events, event],
    });
  return (
    <ConfirmDialog
      title={target ? 'Edit the target' : 'New notification target'}
      verb={target ? 'Save' : 'Create'}
      action={action}
      onClose={onClose}
    >
      {!target && <Choice {...field('kind', 'Kind')} choices={kinds} />}
      {!target && reach && (
        <Choice
          {...field('reach', 'Hears of', 'team_id')}
          choices={[
            ['project', 'The exports of this project'],
            ['all', `The exports of all projects of ${reach.organization}`],
          ]}
        />
      )}
      <TextField {...field('description', 'Description')} />
      {kind === 'webhook' ? (
        <>
          <TextField
            {...field('url', 'URL')}
            help={target ? `Now ${target.url_preview}. Empty: it stays.` : 'https only.'}
          />
          <Choice {...field('format', 'Format')} choices={formats} />
        </>
      ) : (
        <TextField
          {...field('recipients', 'Recipients')}
          help="E-mail addresses, separated by commas."
        />
      )}
      <fieldset>
        <legend>Events</legend>
        {all.map((event) => (
          <label key={event} className="field inline">
            <input
              type="checkbox"
              checked={events.includes(event)}
              onChange={() => toggle(event)}
            />{' '}
            <span>
              {event} <span className="muted">{eventTexts[event]}</span>
            </span>
          </label>
        ))}
      </fieldset>
    </ConfirmDialog>
  );
}
