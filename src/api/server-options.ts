import { randomUUID } from 'node:crypto';
import { type FastifyServerOptions, LogController } from 'fastify';
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
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 500 },
    logController: new LogController({ disableRequestLogging: true }),
    return503OnClosing: true,
    forceCloseConnections: 'idle' as const,
  } satisfies FastifyServerOptions;
}
