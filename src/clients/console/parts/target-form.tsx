import { useState } from 'react';
import type { NotificationTarget, TargetBody } from '../api-types.ts';
import type { ApiFailure } from '../api.ts';
import { Choice } from '../form/choice.tsx';
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
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: one form or table, from top to bottom
export function TargetDialog({ target, save, onClose }: Props) {
  const { events: all, reach } = useTargets();
  const [isForAll, setForAll] = useState(false);
  const [kind, setKind] = useState<NotificationTarget['kind']>(target?.kind ?? 'webhook');
  const [description, setDescription] = useState(target?.description ?? '');
  const [url, setUrl] = useState('');
  const [format, setFormat] = useState<NotificationTarget['format']>(target?.format ?? 'json');
  const [recipients, setRecipients] = useState(target?.recipients.join(', ') ?? '');
  const [events, setEvents] = useState<readonly string[]>(target?.events ?? all);
  const action = useAction(async () => {
    const address =
      kind === 'email'
        ? { recipients: recipients.split(/[\s,]+/).filter((each) => each !== '') }
        : { ...(url === '' ? {} : { url }), format };
    const newTarget = { kind, ...(reach && { team_id: isForAll ? null : reach.projectId }) };
    const body = { ...(target ? {} : newTarget), description, events, ...address };
    await save(body as TargetBody);
    onClose();
  });
  const errorOf = (attr: string) => problemOf(action.failure, attr);
  const toggle = (event: string) =>
    setEvents(
      events.includes(event) ? events.filter((each) => each !== event) : [...events, event],
    );
  return (
    <ConfirmDialog
      title={target ? 'Edit the target' : 'New notification target'}
      verb={target ? 'Save' : 'Create'}
      action={action}
      onClose={onClose}
    >
      {!target && (
        <Choice attr="kind" label="Kind" value={kind} choices={kinds} onChange={setKind} />
      )}
      {!target && reach && (
        <Choice
          attr="team_id"
          label="Hears of"
          value={isForAll ? 'all' : 'project'}
          choices={[
            ['project', 'The exports of this project'],
            ['all', `The exports of all projects of ${reach.organization}`],
          ]}
          onChange={(value) => setForAll(value === 'all')}
          error={errorOf('team_id')}
        />
      )}
      <TextField
        attr="description"
        label="Description"
        value={description}
        onChange={setDescription}
        error={errorOf('description')}
      />
      {kind === 'webhook' ? (
        <>
          <TextField
            attr="url"
            label="URL"
            value={url}
            onChange={setUrl}
            error={errorOf('url')}
            help={target ? `Now ${target.url_preview}. Empty: it stays.` : 'https only.'}
          />
          <Choice
            attr="format"
            label="Format"
            value={format}
            choices={formats}
            onChange={setFormat}
            error={errorOf('format')}
          />
        </>
      ) : (
        <TextField
          attr="recipients"
          label="Recipients"
          value={recipients}
          onChange={setRecipients}
          error={errorOf('recipients')}
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

const problemOf = (failure: ApiFailure | null, attr: string): string | undefined =>
  failure?.problems.find((problem) => problem.attr === attr)?.detail;
