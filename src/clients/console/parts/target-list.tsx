import { type ReactNode, useMemo, useState } from 'react';
import type { Delivery, NotificationTarget, TargetBody } from '../api-types.ts';
import { plural } from '../numbers.ts';
import { useAction, useConsole, useResource } from '../use-api.ts';
import { useTitle } from '../use-route.ts';
import { ActButton, AskButton, DeleteButton, SecretDialog } from './buttons.tsx';
import { Empty, Loading, Pending } from './notice.tsx';
import { CursorPager } from './pager.tsx';
import {
  eventsOf,
  eventTexts,
  targetPaths,
  TargetsContext,
  useMayWrite,
  useTargets,
} from './targets.ts';
import { TimeText } from './time-text.tsx';
import { Choice, TextField } from '../form/inputs.tsx';
import { toggled } from './tables.tsx';

export function NotificationsPage({ project }: { readonly project: string }) {
  const { me } = useConsole();
  const reach = useMemo(
    () =>
      me?.all_projects ? { projectId: Number(project), organization: me.organization.name } : null,
    [me, project],
  );
  if (me === null) return <Loading />;
  return (
    <TargetList base={targetPaths[reach ? 'organization' : 'project']} reach={reach}>
      <p>
        A webhook, a Slack message or an e-mail says when an export fails, and when it works again.
      </p>
    </TargetList>
  );
}

interface Props extends Pick<TargetsContext, 'base' | 'reach'> {
  /** The events that these targets hear of, if there is none yet. */
  readonly children: ReactNode;
}

/** The page of notification targets: those of a project, or those of the installation. */
export function TargetList({ base, reach, children }: Props) {
  const { api } = useConsole();
  const mayWrite = useMayWrite(base);
  const [shown, showSecret] = useState<{ name: string; secret: string } | null>(null);
  const context = useMemo<TargetsContext>(
    () => ({ base, reach, showSecret: (name, secret) => showSecret({ name, secret }) }),
    [base, reach],
  );
  const { data, failure, reload } = useResource({
    key: 'targets',
    load: async (signal) => {
      const { results } = await api.get(base, { limit: 100 }, signal);
      // Those of the project, and those of all projects of its organization.
      return results.filter(
        ({ team_id: team = null }) => !reach || team === null || team === reach.projectId,
      );
    },
    pollMs: () => 15_000,
  });
  useTitle('Notifications');
  return (
    <TargetsContext value={context}>
      <div className="row heading">
        <h1>Notifications</h1>
        {data && data.length > 0 && <span className="muted">{plural(data.length, 'target')}</span>}
        {mayWrite && <NewTarget />}
      </div>
      <Pending {...{ data, failure, reload }} />
      {data?.length === 0 && <Empty title="No notification targets yet">{children}</Empty>}
      <ul className="stack">
        {data?.map((target) => (
          <TargetItem key={target.id} target={target} />
        ))}
      </ul>
      {shown && <SecretDialog {...shown} onClose={() => showSecret(null)} />}
    </TargetsContext>
  );
}

const lostSecret = 'Its secret was in an answer that did not arrive. Make a new secret.';

function NewTarget() {
  const { api, base, showSecret } = useTargets();
  return (
    <TargetButton
      className="primary last"
      button="New target"
      target={null}
      save={async (body) => {
        const created = await api.post(base, {}, body);
        // A webhook has a secret. No answer shows it twice.
        const isLost = created.kind === 'webhook' && created.secret === null;
        if (created.secret !== null) showSecret(nameOf(created), created.secret);
        return `The target is created.${isLost ? ` ${lostSecret}` : ''}`;
      }}
    />
  );
}

const addressOf = (target: NotificationTarget) =>
  target.url_preview ?? target.recipients.join(', ');
const nameOf = (target: NotificationTarget) =>
  target.description === '' ? addressOf(target) : target.description;

function TargetItem({ target }: { target: NotificationTarget }) {
  const { api, base, mayWrite, reach } = useTargets();
  const [isOpen, setOpen] = useState(false);
  const address = addressOf(target);
  const name = nameOf(target);
  const test = useAction(async () => {
    const { delivered, answer } = await api.post(`${base}/{id}/test`, { id: target.id });
    return delivered ? `The test was delivered: ${answer}.` : `The test failed: ${answer}.`;
  });
  return (
    <li className="card stack target" aria-label={name}>
      <div className="row">
        <h2>
          <bdi>{name}</bdi>
        </h2>
        <TargetState target={target} />
        {mayWrite && (
          <ActButton act={test} className="small last" aria-label={`Send a test to ${name}`}>
            {test.busy ? 'Sending…' : 'Send a test'}
          </ActButton>
        )}
      </div>
      <p className="muted small">
        {target.kind === 'email' ? 'E-mail' : `Webhook, ${target.format}`} · {address} ·{' '}
        {target.events.join(', ')}
        {reach !== null && target.team_id === null && (
          <>
            {' '}
            · all projects of <bdi>{reach.organization}</bdi>
          </>
        )}
      </p>
      {target.disabled_reason !== null && <p className="bad-text">{target.disabled_reason}</p>}
      {mayWrite && <TargetActions {...{ target, name }} />}
      <div>
        <button
          type="button"
          aria-expanded={isOpen}
          aria-label={`${isOpen ? 'Hide' : 'Show'} deliveries of ${name}`}
          onClick={() => setOpen(!isOpen)}
        >
          {isOpen ? 'Hide deliveries' : 'Show deliveries'}
        </button>
      </div>
      {isOpen && <Deliveries target={target} />}
    </li>
  );
}

function TargetState({ target }: { target: NotificationTarget }) {
  if (!target.enabled) return <span className="badge is-Cancelled">Disabled</span>;
  if (target.failing_since === null) return <span className="badge is-Completed">Enabled</span>;
  return (
    <span className="badge is-Failed">
      Failing since <TimeText at={target.failing_since} />
    </span>
  );
}

interface ActionsProps {
  readonly target: NotificationTarget;
  readonly name: string;
}

function TargetActions({ target: { id, kind, enabled }, target, name }: ActionsProps) {
  const { api, base, showSecret } = useTargets();
  const toggle = useAction(async () => {
    await api.patch(`${base}/{id}`, { id }, { enabled: !enabled });
    return `${name} is ${enabled ? 'disabled' : 'enabled'}.`;
  });
  const verb = enabled ? 'Disable' : 'Enable';
  const rotate = async () => {
    const { secret } = await api.post(`${base}/{id}/rotate_secret`, { id });
    if (secret === null) return lostSecret;
    showSecret(name, secret);
  };
  return (
    <div className="row">
      <TargetButton
        button="Edit"
        label={`Edit ${name}`}
        target={target}
        save={async (body) => {
          await api.patch(`${base}/{id}`, { id }, body);
          return `${name} is saved.`;
        }}
      />
      <ActButton act={toggle} aria-label={`${verb} ${name}`}>
        {verb}
      </ActButton>
      {kind === 'webhook' && (
        <AskButton
          button="New secret"
          label={`New secret for ${name}`}
          title={`A new secret for ${name}?`}
          verb="Make a new secret"
          work={rotate}
        >
          <p>The secret of now signs too for 24 hours. The new one is shown once.</p>
        </AskButton>
      )}
      <DeleteButton name={name} what="target" remove={() => api.remove(`${base}/{id}`, { id })}>
        Nothing is sent to it any more, and its log goes.
      </DeleteButton>
    </div>
  );
}

function Deliveries({ target }: { target: NotificationTarget }) {
  const { api, base } = useTargets();
  const [cursor, setCursor] = useState<string | null>(null);
  const { data, failure, reload } = useResource({
    key: `${target.id} ${cursor}`,
    load: (signal) =>
      api.get(`${base}/{id}/deliveries`, { id: target.id, cursor, limit: 20 }, signal),
    pollMs: () => 5_000,
  });
  return (
    <section aria-label="Deliveries">
      <Pending {...{ data, failure, reload }} />
      {data?.results.length === 0 && <p className="muted">Nothing was sent yet.</p>}
      <ul className="stack">
        {data?.results.map((delivery) => (
          <DeliveryItem key={delivery.id} delivery={delivery} />
        ))}
      </ul>
      {data && <CursorPager page={data} onMove={setCursor} />}
    </section>
  );
}

const states: Readonly<Record<Delivery['status'], readonly [string, string]>> = {
  waiting: ['Waiting', 'is-Running'],
  delivered: ['Delivered', 'is-Completed'],
  given_up: ['Given up', 'is-Failed'],
  cancelled: ['Cancelled', 'is-Cancelled'],
  replaced: ['Not sent: too many at once', 'is-Cancelled'],
};

function DeliveryItem({ delivery }: { delivery: Delivery }) {
  const [label, style] = states[delivery.status];
  const last = delivery.attempt_log.at(-1);
  return (
    <li className="stack">
      <div className="row">
        <strong>{delivery.event_type}</strong>
        <span className={`badge ${style}`}>{label}</span>
        <span className="muted small">
          <TimeText at={delivery.happened_at} as="ago" />
          {last && ` · ${last.answer} in ${last.latency_ms} ms`}
          {` · ${plural(delivery.attempts, 'attempt')}`}
          {delivery.next_attempt_at !== null && (
            <>
              {' · next '}
              <TimeText at={delivery.next_attempt_at} as="relative" />
            </>
          )}
        </span>
      </div>
    </li>
  );
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

interface TargetFormProps {
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

function TargetButton({ target, save, ...button }: TargetFormProps) {
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
