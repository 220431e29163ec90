import { type ReactNode, useMemo, useState } from 'react';
import type { NotificationTarget, TargetEvent } from '../api-types.ts';
import { plural } from '../numbers.ts';
import { TargetsContext, useTargets } from '../targets-context.ts';
import { useAction } from '../use-action.ts';
import { useResource } from '../use-resource.ts';
import { useTitle } from '../use-title.ts';
import { ActButton } from './act-button.tsx';
import { DialogButton } from './dialog.tsx';
import { Empty, Pending } from './notice.tsx';
import { lostSecret, SecretDialog } from './secret-dialog.tsx';
import { TargetActions } from './target-actions.tsx';
import { Deliveries } from './target-deliveries.tsx';
import { TargetDialog } from './target-form.tsx';
import { TimeText } from './time-text.tsx';
import { useSay } from './toasts.tsx';

interface Props extends Pick<TargetsContext, 'api' | 'base' | 'mayWrite' | 'reach'> {
  readonly events: readonly TargetEvent[];
  /** The events that these targets hear of, if there is none yet. */
  readonly children: ReactNode;
}

/** The page of notification targets: those of a project, or those of the installation. */
export function TargetList({ api, base, mayWrite, reach, events, children }: Props) {
  const [shown, showSecret] = useState<{ name: string; secret: string } | null>(null);
  const context = useMemo<TargetsContext>(
    () => ({
      ...{ api, base, mayWrite, reach, events },
      showSecret: (name, secret) => showSecret({ name, secret }),
    }),
    [api, base, mayWrite, reach, events],
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

function NewTarget() {
  const { api, base, showSecret } = useTargets();
  const say = useSay();
  return (
    <DialogButton
      className="primary last"
      dialog={(onClose) => (
        <TargetDialog
          target={null}
          onClose={onClose}
          save={async (body) => {
            const created = await api.post(base, {}, body);
            // A webhook has a secret. No answer shows it twice.
            const isLost = created.kind === 'webhook' && created.secret === null;
            say(`The target is created.${isLost ? ` ${lostSecret}` : ''}`);
            if (created.secret !== null) showSecret(nameOf(created), created.secret);
          }}
        />
      )}
    >
      New target
    </DialogButton>
  );
}

const addressOf = (target: NotificationTarget) =>
  target.url_preview ?? target.recipients.join(', ');
const nameOf = (target: NotificationTarget) =>
  target.description === '' ? addressOf(target) : target.description;

function TargetItem({ target }: { target: NotificationTarget }) {
  const { api, base, mayWrite, reach } = useTargets();
  const say = useSay();
  const [isOpen, setOpen] = useState(false);
  const address = addressOf(target);
  const name = nameOf(target);
  const test = useAction(async () => {
    const { delivered, answer } = await api.post(`${base}/{id}/test`, { id: target.id });
    say(delivered ? `The test was delivered: ${answer}.` : `The test failed: ${answer}.`);
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
