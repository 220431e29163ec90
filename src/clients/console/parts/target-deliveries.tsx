import { useState } from 'react';
import type { Delivery, NotificationTarget } from '../api-types.ts';
import { plural } from '../numbers.ts';
import { useTargets } from '../targets-context.ts';
import { useAction } from '../use-action.ts';
import { useResource } from '../use-resource.ts';
import { ActButton } from './act-button.tsx';
import { Pending } from './notice.tsx';
import { CursorPager } from './pager.tsx';
import { TimeText } from './time-text.tsx';
import { useSay } from './toasts.tsx';

/** The deliveries to a target. */
export function Deliveries({ target }: { target: NotificationTarget }) {
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
          <DeliveryItem key={delivery.id} {...{ target, delivery }} />
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

interface DeliveryProps {
  readonly target: NotificationTarget;
  readonly delivery: Delivery;
}

function DeliveryItem({ target, delivery }: DeliveryProps) {
  const { api, base, mayWrite } = useTargets();
  const say = useSay();
  const [label, style] = states[delivery.status];
  const last = delivery.attempt_log.at(-1);
  const repeat = useAction(async () => {
    await api.post(`${base}/{id}/deliveries/{delivery_id}/redeliver`, {
      id: target.id,
      delivery_id: delivery.id,
    });
    say('The delivery is sent again within seconds.');
  });
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
        {mayWrite && target.enabled && (
          <ActButton
            act={repeat}
            className="small last"
            aria-label={`Send again: ${delivery.event_type}`}
          >
            Send again
          </ActButton>
        )}
      </div>
    </li>
  );
}
