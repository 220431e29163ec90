import type {
  CreatedTarget,
  CursorPage,
  Delivery,
  NotificationTarget,
  NotificationTest,
  OffsetPage,
  TargetBody,
} from './api-types.ts';
import type { Call } from './api-call.ts';

/**
 * Notification targets: those of a project, or those of the installation.
 *
 * @param send calls the API; the path begins after `notification_targets`
 */
export function createTargetsClient(send: <T>(path: string, call?: Call) => Promise<T>) {
  const post = <T>(path: string, body: object = {}) => send<T>(path, { method: 'POST', body });
  return {
    list: (signal: AbortSignal) =>
      send<OffsetPage<NotificationTarget>>('', { query: { limit: 100 }, signal }),
    create: (body: TargetBody) => post<CreatedTarget>('', body),
    change: (id: string, body: TargetBody) =>
      send<NotificationTarget>(`/${id}`, { method: 'PATCH', body }),
    rotateSecret: (id: string) => post<CreatedTarget>(`/${id}/rotate_secret`),
    remove: (id: string) => send<null>(`/${id}`, { method: 'DELETE' }),
    test: (id: string) => post<NotificationTest>(`/${id}/test`),
    listDeliveries: (id: string, cursor: string | null, signal: AbortSignal) =>
      send<CursorPage<Delivery>>(`/${id}/deliveries`, { query: { cursor, limit: 20 }, signal }),
    redeliver: (id: string, deliveryId: string) =>
      post<Delivery>(`/${id}/deliveries/${deliveryId}/redeliver`),
  };
}
