import { useState } from 'react';
import type { CursorPage, Delivery, NotificationTarget } from '../api-types.ts';
import { cursorOf } from '../client.ts';
import { useConsole } from '../console-context.ts';
import { plural } from '../numbers.ts';
import { DialogButton } from '../parts/dialog.tsx';
import { Empty, Failure, Loading } from '../parts/notice.tsx';
import { Pager } from '../parts/pager.tsx';
import { TargetActions } from '../parts/target-actions.tsx';
import { TargetDialog } from '../parts/target-form.tsx';
import { TimeText } from '../parts/time-text.tsx';
import { useAction } from '../use-action.ts';
import { useResource } from '../use-resource.ts';
import { useTitle } from '../use-title.ts';

/** Who is notified of the project's changes, and what was sent to them. */
export function NotificationsPage() {
  const { client, may } = useConsole();
  const { data, failure, reload } = useResource({
    key: 'targets',
    load: (signal) => client.listTargets(signal),
    pollMs: () => 15_000,
  });
  useTitle('Notifications');
  return (
    <>
      <div className="row heading">
        <h1>Notifications</h1>
        {data && data.count > 0 && <span className="muted">{plural(data.count, 'target')}</span>}
        {may('batch_export:write') && <NewTarget onCreated={reload} />}
      </div>
      <Failure failure={failure} onRetry={reload} stale={data !== null} />
      {!data && !failure && <Loading />}
      {data?.results.length === 0 && (
        <Empty title="No notification targets yet">
          <p>
            A webhook, a Slack message or an e-mail says when an export fails, and when it works
            again.
          </p>
        </Empty>
      )}
      <ul className="stack">
        {data?.results.map((target) => (
          <TargetItem key={target.id} target={target} onChanged={reload} />
        ))}
      </ul>
    </>
  );
}

/** The events that a target can ask for. */
const events: readonly string[] = [
  'export.failing',
  'export.retries_exhausted',
  'export.paused',
  'export.recovered',
  'export.late',
  'export.on_time',
  'export.incomplete',
  'export.complete',
  'healing.started',
  'healing.ended',
  'interval.at_risk',
  'interval.missed',
  'interval.delivered_late',
  'verify.failed',
  'verify.passed',
  'backfill.completed',
];

function NewTarget({ onCreated }: { readonly onCreated: () => void }) {
  const { client, say } = useConsole();
  return (
    <DialogButton
      className="primary"
      dialog={(onClose) => (
        <TargetDialog
          target={null}
          events={events}
          onClose={onClose}
          save={async (body) => {
            const { secret } = await client.createTarget(body);
            say(secret === null ? 'The target is created.' : `Its secret, shown once: ${secret}`);
            onCreated();
          }}
        />
      )}
    >
      New target
    </DialogButton>
  );
}

interface TargetProps {
  readonly target: NotificationTarget;
  readonly onChanged: () => void;
}

function TargetItem({ target, onChanged }: TargetProps) {
  const { client, may, say } = useConsole();
  const [tests, setTests] = useState(0);
  const [isOpen, setOpen] = useState(false);
  const address = target.url_preview ?? target.recipients.join(', ');
  const name = target.description === '' ? address : target.description;
  const test = useAction(async () => {
    const { delivered, answer } = await client.testTarget(target.id);
    say(delivered ? `The test was delivered: ${answer}.` : `The test failed: ${answer}.`);
    setTests((count) => count + 1);
    onChanged();
  });
  return (
    <li className="card stack" aria-label={name}>
      <div className="row">
        <h2>{name}</h2>
        <TargetState target={target} />
        {may('batch_export:write') && (
          <button
            type="button"
            className="small last"
            onClick={() => void test.run()}
            disabled={test.busy}
            aria-label={`Send a test to ${name}`}
          >
            {test.busy ? 'Sending…' : 'Send a test'}
          </button>
        )}
      </div>
      <p className="muted small">
        {target.kind === 'email' ? 'E-mail' : `Webhook, ${target.format}`} · {address} ·{' '}
        {target.events.join(', ')}
        {!target.digests && ' · no digests'}
      </p>
      {target.unconfirmed_recipients.length > 0 && (
        <p className="bad-text">
          Waiting for the confirmation of {target.unconfirmed_recipients.join(', ')}. Send a test to
          ask again, once a day.
        </p>
      )}
      {target.disabled_reason !== null && <p className="bad-text">{target.disabled_reason}</p>}
      <Failure failure={test.failure} />
      {may('batch_export:write') && <TargetActions {...{ target, name, events, onChanged }} />}
      <div>
        <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? 'Hide deliveries' : 'Show deliveries'}
        </button>
      </div>
      {isOpen && <Deliveries key={tests} target={target} />}
    </li>
  );
}

function TargetState({ target }: { target: NotificationTarget }) {
  if (!target.enabled) return <span className="badge is-Cancelled">Disabled</span>;
  if (target.failing_since === null) return <span className="badge is-Completed">Enabled</span>;
  return (
    <span className="badge is-Failed">
      Failing since <TimeText at={target.failing_since} as="relative" />
    </span>
  );
}

function Deliveries({ target }: { target: NotificationTarget }) {
  const { client } = useConsole();
  const [cursor, setCursor] = useState<string | null>(null);
  const { data, failure, reload } = useResource<CursorPage<Delivery>>({
    key: `${target.id} ${cursor}`,
    load: (signal) => client.listDeliveries(target.id, cursor, signal),
    pollMs: () => 5_000,
  });
  const goTo = (link: string | null) => (link === null ? null : () => setCursor(cursorOf(link)));
  return (
    <section aria-label="Deliveries">
      <Failure failure={failure} onRetry={reload} stale={data !== null} />
      {!data && !failure && <Loading />}
      {data?.results.length === 0 && <p className="muted">Nothing was sent yet.</p>}
      <ul className="stack">
        {data?.results.map((delivery) => (
          <DeliveryItem key={delivery.id} {...{ target, delivery }} onChanged={reload} />
        ))}
      </ul>
      {data && <Pager onNewer={goTo(data.previous)} onOlder={goTo(data.next)} />}
    </section>
  );
}

const states: Readonly<Record<Delivery['status'], readonly [string, string]>> = {
  waiting: ['Waiting', 'is-Running'],
  delivered: ['Delivered', 'is-Completed'],
  given_up: ['Given up', 'is-Failed'],
  cancelled: ['Cancelled', 'is-Cancelled'],
  replaced: ['Replaced by a later one', 'is-Cancelled'],
};

interface DeliveryProps extends TargetProps {
  readonly delivery: Delivery;
}

function DeliveryItem({ target, delivery, onChanged }: DeliveryProps) {
  const { client, may, say } = useConsole();
  const [label, style] = states[delivery.status];
  const last = delivery.attempt_log.at(-1);
  const repeat = useAction(async () => {
    await client.redeliver(target.id, delivery.id);
    say('The delivery is sent again within seconds.');
    onChanged();
  });
  return (
    <li className="stack">
      <div className="row">
        <strong>{delivery.event_type}</strong>
        <span className={`badge ${style}`}>{label}</span>
        <span className="muted small">
          <TimeText at={delivery.happened_at} as="relative" />
          {last && ` · ${last.answer} in ${last.latency_ms} ms`}
          {delivery.digest_id === null
            ? ` · ${plural(delivery.attempts, 'attempt')}`
            : ' · together with others'}
          {delivery.next_attempt_at !== null && (
            <>
              {' · next '}
              <TimeText at={delivery.next_attempt_at} as="relative" />
              {delivery.delayed_by === 'email_limit' && ' (limit of e-mails per hour)'}
            </>
          )}
        </span>
        {may('batch_export:write') && target.enabled && (
          <button
            type="button"
            className="small last"
            onClick={() => void repeat.run()}
            disabled={repeat.busy}
            aria-label={`Send again: ${delivery.event_type}`}
          >
            Send again
          </button>
        )}
      </div>
      <Failure failure={repeat.failure} />
    </li>
  );
}
