import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import type { Delivery } from '../../../state/store/notifications/notification-deliveries.ts';
import type { NotificationTarget } from '../../../state/store/notifications/notification-targets.ts';
import type { TargetWithSecret } from '../../use-cases/notifications/change-targets.ts';
import type {
  NotificationDelivery,
  NotificationTarget as NotificationTargetView,
} from './schema.ts';

export function targetView(target: NotificationTarget): NotificationTargetView {
  const { organizationId: _, secrets: __, recipients, events, ...shown } = target;
  return { ...inSnakeCase(shown), recipients: [...recipients], events: [...events] };
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
