import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import type { Delivery } from '../../../state/store/notifications/notification-deliveries.ts';
import type { NotificationTarget } from '../../../state/store/notifications/notification-targets.ts';
import type { TargetWithSecret } from '../../use-cases/notifications/change-targets.ts';
import type {
  NotificationDelivery,
  NotificationTarget as NotificationTargetView,
} from './schema.ts';

export function targetView(target: NotificationTarget): NotificationTargetView {
  return {
    id: target.id,
    team_id: target.teamId,
    kind: target.kind,
    description: target.description,
    url_preview: target.urlPreview,
    format: target.format,
    recipients: [...target.recipients],
    events: [...target.events],
    enabled: target.enabled,
    disabled_reason: target.disabledReason,
    failing_since: target.failingSince,
    previous_secret_until: target.previousSecretUntil,
    created_at: target.createdAt,
    last_updated_at: target.lastUpdatedAt,
  };
}

export function targetWithSecretView({ target, secret }: TargetWithSecret) {
  return { ...targetView(target), secret };
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
