import { randomUUID } from 'node:crypto';
import { type FastifyServerOptions, LogController } from 'fastify';
import { notFound } from '../domain/problem.ts';
import type { Reply, Request } from './api.ts';
import { sendError } from './hooks/errors.ts';
import type { ApiOptions } from './options.ts';

const mebibyte = 1_048_576;

/** Limits and manners of the server itself. */
export function fastifyOptions({ logger, trustProxy }: ApiOptions) {
  return {
    loggerInstance: logger,
    trustProxy,
    bodyLimit: mebibyte,
    // A client that sends its headers or body drop by drop is cut off.
    connectionTimeout: 0,
    requestTimeout: 30_000,
    keepAliveTimeout: 72_000,
    genReqId: () => randomUUID(),
    requestIdHeader: false as const,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 16_384 },
    logController: new LogController({ disableRequestLogging: true }),
    // A path that does not decode never reaches the hooks.
    frameworkErrors: (_error: Error, request: Request, reply: Reply) => {
      sendError(request, reply, notFound());
    },
    return503OnClosing: true,
    forceCloseConnections: 'idle' as const,
  } satisfies FastifyServerOptions;
}
