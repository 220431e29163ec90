import type { NotificationTarget, TargetBody } from '../api-types.ts';
import { Choice, TextField } from '../form/inputs.tsx';
import { AskButton } from './buttons.tsx';
import { toggled } from './tables.tsx';
import { eventsOf, eventTexts, useTargets } from './targets.ts';

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

interface Props {
  readonly target: NotificationTarget | null;
  readonly button: string;
  readonly label?: string;
  readonly className?: string;
  readonly save: (body: TargetBody) => Promise<string>;
}

interface Draft extends Pick<NotificationTarget, 'kind' | 'description' | 'format'> {
  readonly team_id: 'project' | 'all';
  readonly url: string;
  readonly recipients: string;
  readonly events: readonly string[];
}

export function TargetButton({ target, save, ...button }: Props) {
  const { base, reach } = useTargets();
  const all = eventsOf(base);
  const first: Draft = {
    team_id: 'project',
    kind: target?.kind ?? 'webhook',
    description: target?.description ?? '',
    url: '',
    format: target?.format ?? 'json',
    recipients: target?.recipients.join(', ') ?? '',
    events: target?.events ?? all,
  };
  const work = ({ team_id, kind, url, format, recipients, ...draft }: Draft) => {
    const address =
      kind === 'email'
        ? { recipients: recipients.split(/[\s,]+/).filter((each) => each !== '') }
        : { ...(url === '' ? {} : { url }), format };
    const team = reach && { team_id: team_id === 'all' ? null : reach.projectId };
    return save({ ...(target ? {} : { kind, ...team }), ...draft, ...address } as TargetBody);
  };
  return (
    <AskButton
      {...button}
      title={target ? 'Edit the target' : 'New notification target'}
      verb={target ? 'Save' : 'Create'}
      draft={first}
      work={work}
    >
      {({ draft: { kind, events }, change, field }) => (
        <>
          {!target && <Choice {...field('kind', 'Kind')} choices={kinds} />}
          {!target && reach && (
            <Choice
              {...field('team_id', 'Hears of')}
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
                  onChange={() => change({ events: toggled(events, event) })}
                />{' '}
                <span>
                  {event} <span className="muted">{eventTexts[event]}</span>
                </span>
              </label>
            ))}
          </fieldset>
        </>
      )}
    </AskButton>
  );
}
