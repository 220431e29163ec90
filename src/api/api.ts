import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  RawServerDefault,
} from 'fastify';
import type { BatchExport } from '../domain/batch-export.ts';
import type { Scope } from '../security/scopes.ts';
import type { PresentedKey } from '../store/api-keys.ts';
import type { Reach } from '../store/tenants.ts';
import type { Actor, Context } from '../use-cases/context.ts';

/** The server, with types that follow from the schemas. */
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
    /** What the key must be allowed. A route without a scope is open to all. */
    scope?: Scope;
    /** A POST without an effect: it needs no Idempotency-Key. */
    changesNothing?: true;
  }
  interface FastifyRequest {
    /** What its use cases work with; under an Idempotency-Key, one transaction. */
    context: Context;
    caller: PresentedKey | undefined;
    reach: Reach | undefined;
    batchExport: BatchExport | undefined;
  }
}

/** The key that asks. Only on routes with a scope. */
export function callerOf(request: FastifyRequest): PresentedKey {
  return present(request.caller, 'caller');
}

/** Who a request acts for. */
export function actorOf(request: FastifyRequest): Actor {
  const { id, organizationId } = callerOf(request);
  return { keyId: id, organizationId };
}

/** The project or organization asked about. Only on routes with a scope. */
export function reachOf(request: FastifyRequest): Reach {
  return present(request.reach, 'reach');
}

/** The export that the path names. Only behind `loadBatchExport`. */
export function batchExportOf(request: FastifyRequest): BatchExport {
  return present(request.batchExport, 'batchExport');
}

function present<T>(value: T | undefined, name: string): T {
  if (value === undefined) throw new Error(`a route asked for request.${name} that no hook set`);
  return value;
}
