import type { Actor } from '../use-cases/context.ts';
import { callerOf, type Request } from './api.ts';

/** Who a request acts for. */
export function actorOf(request: Request): Actor {
  const { id, organizationId } = callerOf(request);
  return { keyId: id, organizationId };
}
