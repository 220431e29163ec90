import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import type { NotificationSender } from '../../../foundation/domain/notification.ts';
import type { Delivery } from '../../../state/store/notifications/notification-deliveries.ts';
import type { NotificationTarget } from '../../../state/store/notifications/notification-targets.ts';
import type { TargetWithSecret } from '../../use-cases/notifications/change-targets.ts';
import type {
  NotificationDelivery,
  NotificationTarget as NotificationTargetView,
} from './schema.ts';

export function targetView(
  target: NotificationTarget,
  { trusts }: Pick<NotificationSender, 'trusts'>,
): NotificationTargetView {
  return {
    id: target.id,
    team_id: target.teamId,
    kind: target.kind,
    description: target.description,
    url_preview: target.urlPreview,
    format: target.format,
    recipients: [...target.recipients],
    unconfirmed_recipients: target.recipients.filter(
      (each) => !trusts(each) && target.unconfirmed.includes(each.toLowerCase()),
    ),
    events: [...target.events],
    enabled: target.enabled,
    digests: target.digests,
    disabled_reason: target.disabledReason,
    failing_since: target.failingSince,
    previous_secret_until: target.previousSecretUntil,
    created_at: target.createdAt,
    last_updated_at: target.lastUpdatedAt,
  };
}

export function targetWithSecretView(
  { target, secret }: TargetWithSecret,
  sender: Pick<NotificationSender, 'trusts'>,
) {
  return { ...targetView(target, sender), secret };
}

export function deliveryView({
  exportId,
  attemptLog,
  ...delivery
}: Delivery): NotificationDelivery {
  return {
    ...inSnakeCase(delivery),
    batch_export_id: exportId,
    attempt_log: [...attemptLog],
  };
}
