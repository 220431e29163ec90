import type { IncomingMessage, ServerResponse } from 'node:http';
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  RawServerDefault,
} from 'fastify';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { BatchExport } from '../../foundation/domain/batch-export.ts';
import type { Scope } from '../../foundation/security/scopes.ts';
import type { NotificationTarget } from '../../state/store/notifications/notification-targets.ts';
import type { PresentedKey } from '../../state/store/tenants/api-keys.ts';
import { installationId, type Reach } from '../../state/store/tenants/tenants.ts';
import type { Actor, Context } from '../use-cases/context.ts';

export type Api = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

export type { FastifyReply as Reply, FastifyRequest as Request };

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The scope that the key must have; `any` for each valid key. A route without it needs no key. */
    scope?: Scope | 'any';
    otherScope?: Scope;
    /** A read that the key of an operator may do for any project. */
    operatorsMay?: true;
    /** A POST without an effect: it ignores an Idempotency-Key. */
    changesNothing?: true;
    /** A GET whose answer is compressed: it has no rows, no log and no secret. */
    compresses?: true;
    /** The number of requests that it counts as for the key's limit; default 1. */
    cost?: number;
    /** A field of the answer that is shown once: what is kept for an Idempotency-Key has null there. */
    shownOnce?: string;
  }
  interface FastifyRequest {
    /** The context of its use cases; with an Idempotency-Key, within one transaction. */
    context: Context;
    caller: PresentedKey | undefined;
    reach: Reach | undefined;
    bodyBytes: number;
    /** Scheme and host that links begin with. */
    linkBase: string;
    batchExport: BatchExport | undefined;
    notificationTarget: NotificationTarget | undefined;
  }
}

/** The key of the request. Only on routes with a scope. */
export function callerOf(request: FastifyRequest): PresentedKey {
  return present(request.caller, 'caller');
}

export function actorOf(request: FastifyRequest): Actor {
  const { id, organizationId } = callerOf(request);
  return { keyId: id, organizationId: organizationId ?? installationId };
}

/** Says whether an operator looks at what is a customer's. */
export const isOperatorsLook = (request: FastifyRequest): boolean =>
  request.routeOptions.config.operatorsMay === true && callerOf(request).organizationId === null;

/** The project or organization of the path. Only on routes with a scope. */
export function reachOf(request: FastifyRequest): Reach {
  return present(request.reach, 'reach');
}

/** The export that the path names. Only behind `loadBatchExport`. */
export function batchExportOf(request: FastifyRequest): BatchExport {
  return present(request.batchExport, 'batchExport');
}

/** The target that the path names. Only behind `loadNotificationTarget`. */
export function targetOf(request: FastifyRequest): NotificationTarget {
  return present(request.notificationTarget, 'notificationTarget');
}

function present<T>(value: T | undefined, name: string): T {
  if (value === undefined) throw new Error(`no hook has set request.${name} on this route`);
  return value;
}
